#include "experiments/support/report/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

namespace fovea {
namespace {

constexpr int wanted_ticks = 5;

/// The smallest of 1, 2, 5 and 10 times a power of ten that is at least `value`.
double round_up(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (double factor : {1.0, 2.0, 5.0})
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

std::string with_true_minus(const std::string& text) { return text.starts_with('-') ? "−" + text.substr(1) : text; }

}  // namespace

AxisScale::AxisScale(const Axis& axis, const std::vector<double>& values, Ends ends, double first_pixel,
                     double last_pixel)
    : first_pixel_(first_pixel), last_pixel_(last_pixel) {
  low_ = std::numeric_limits<double>::infinity(), high_ = -low_;
  for (double value : values)
    if (can_show(value)) low_ = std::min(low_, value), high_ = std::max(high_, value);
  if (low_ > high_) low_ = 0, high_ = 1;
  const auto bound = [&] {
    low_ = std::max(low_, axis.least.value_or(low_)), high_ = std::min(high_, axis.most.value_or(high_));
  };
  bound();
  if (!(high_ > low_)) {
    const double room = low_ == 0 ? 1 : std::max(std::abs(low_) * 0.1, 1e-6);
    low_ -= room, high_ += room;
  }
  step_ = round_up((high_ - low_) / wanted_ticks);
  if (ends == Ends::at_ticks) low_ = std::floor(low_ / step_ + 1e-9) * step_;
  if (ends == Ends::at_ticks) high_ = std::ceil(high_ / step_ - 1e-9) * step_;
  bound();
}

bool AxisScale::can_show(double value) { return std::isfinite(value); }

double AxisScale::pixel(double value) const {
  const double position = (value - low_) / (high_ - low_);
  return first_pixel_ + std::clamp(position, 0.0, 1.0) * (last_pixel_ - first_pixel_);
}

std::vector<double> AxisScale::ticks() const {
  std::vector<double> ticks;
  const double tolerance = 1e-9 * (high_ - low_);
  for (double k = std::ceil((low_ - tolerance) / step_); k * step_ <= high_ + tolerance; ++k)
    ticks.push_back(k * step_);
  return ticks;
}

std::string AxisScale::label(double tick) const {
  return std::abs(tick) < 1e-9 * step_ ? "0" : with_true_minus(fmt::format("{:.7g}", tick));
}

}  // namespace fovea
