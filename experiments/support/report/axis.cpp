#include "experiments/support/report/axis.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

namespace fovea {
namespace {

constexpr int wanted_ticks = 5;

/// The smallest of 1, 2, 5, 10 times a power of ten that is at least `value`.
double round_up(double value) {
  double power = std::pow(10, std::floor(std::log10(value)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

double rounded_down(double value) {
  double power = std::pow(10, std::floor(std::log10(value)));
  for (double factor : {5.0, 2.0}) {
    if (factor * power <= value * (1 + 1e-9)) return factor * power;
  }
  return power;
}

std::string with_true_minus(std::string text) {
  if (text.starts_with('-')) text.replace(0, 1, "−");
  return text;
}

/// Formats 2e-5 as such, rather than as 2e-05 or 0.00002.
std::string logarithmic_label(double value) {
  constexpr double smallest_plain = 1e-3, largest_plain = 1e4;
  if (value >= smallest_plain * 0.99 && value <= largest_plain * 1.01) return fmt::format("{:.6g}", value);
  double exponent = std::floor(std::log10(value) + 1e-9);
  return fmt::format("{:.3g}e{}", value / std::pow(10, exponent), int(exponent));
}

}  // namespace

AxisScale::AxisScale(const Axis& axis, const std::vector<std::span<const double>>& values, Ends ends,
                     double first_pixel, double last_pixel)
    : logarithmic_(axis.logarithmic), first_pixel_(first_pixel), last_pixel_(last_pixel) {
  double infinity = std::numeric_limits<double>::infinity();
  low_ = infinity;
  high_ = -infinity;
  for (auto part : values) {
    for (double value : part) {
      if (!can_show(value)) continue;
      low_ = std::min(low_, value);
      high_ = std::max(high_, value);
    }
  }
  if (low_ > high_) low_ = logarithmic_ ? 1 : 0, high_ = logarithmic_ ? 10 : 1;
  if (axis.low && can_show(*axis.low)) low_ = *axis.low;
  if (axis.high && can_show(*axis.high)) high_ = *axis.high;
  low_ = std::max(low_, axis.least.value_or(low_)), high_ = std::min(high_, axis.most.value_or(high_));
  logarithmic_ ? choose_logarithmic_range(axis) : choose_linear_range(axis, ends);
  low_ = std::max(low_, axis.least.value_or(low_)), high_ = std::min(high_, axis.most.value_or(high_));
}

void AxisScale::choose_linear_range(const Axis& axis, Ends ends) {
  if (!(high_ > low_)) {
    double room = std::max(std::abs(low_) * 0.1, 1e-6);
    if (low_ == 0) room = 1;
    low_ -= axis.low ? 0 : room;
    high_ = std::max(low_, high_) + room;
  }
  step_ = round_up((high_ - low_) / wanted_ticks);
  if (ends == Ends::at_data) return;
  if (!axis.low) low_ = std::floor(low_ / step_ + 1e-9) * step_;
  if (!axis.high) high_ = std::ceil(high_ / step_ - 1e-9) * step_;
}

void AxisScale::choose_logarithmic_range(const Axis& axis) {
  if (!axis.low) low_ = rounded_down(low_);
  if (!axis.high) high_ = round_up(high_);
  if (!(high_ > low_)) high_ = 10 * low_;
}

bool AxisScale::can_show(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }

double AxisScale::pixel(double value) const {
  double position = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
  return first_pixel_ + std::clamp(position, 0.0, 1.0) * (last_pixel_ - first_pixel_);
}

std::vector<double> AxisScale::ticks() const {
  std::vector<double> ticks;
  double tolerance = 1e-9 * (high_ - low_);
  if (!logarithmic_) {
    for (double k = std::ceil((low_ - tolerance) / step_); k * step_ <= high_ + tolerance; ++k)
      ticks.push_back(k * step_);
    return ticks;
  }
  constexpr double few_decades = 3, many_decades = 7;
  double decades = std::log10(high_ / low_);
  double stride = decades > many_decades ? std::ceil(decades / many_decades) : 1;
  auto factors = decades < few_decades ? std::vector<double>{1, 2, 5} : std::vector<double>{1};
  for (double e = std::floor(std::log10(low_)); e <= std::log10(high_) + 1e-9; e += stride) {
    for (double factor : factors) {
      double tick = factor * std::pow(10, e);
      if (tick >= low_ * (1 - 1e-9) && tick <= high_ * (1 + 1e-9)) ticks.push_back(tick);
    }
  }
  return ticks;
}

std::string AxisScale::label(double tick) const {
  if (logarithmic_) return logarithmic_label(tick);
  double largest = std::max(std::abs(low_), std::abs(high_)), step = step_;
  std::string suffix;
  for (const char* next : {"k", "M", "G"}) {
    double largest_plain = suffix.empty() ? 1e4 : 1e3;
    if (largest < largest_plain || step < 100) break;
    largest /= 1000, step /= 1000, tick /= 1000;
    suffix = next;
  }
  int decimals = std::max(0, int(-std::floor(std::log10(step) + 1e-9)));
  constexpr int most_decimals = 6;
  if (std::abs(tick) < 1e-9 * step) return "0";
  if (decimals > most_decimals) return with_true_minus(fmt::format("{:.3g}", tick));
  return with_true_minus(fmt::format("{:.{}f}{}", tick, decimals, suffix));
}

}  // namespace fovea
