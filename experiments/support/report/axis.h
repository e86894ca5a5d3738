/// From values to pixels, with ticks at round numbers.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "experiments/support/report/svg.h"

namespace fovea {

/// Maps [low, high] to [first_pixel, last_pixel], linearly or by the logarithm.
class AxisScale {
 public:
  enum class Ends { at_ticks, at_data };

  /// The range comes from the axis where it says so, otherwise from the values (all that can be shown); one value, or
  /// none, gets some room around it.
  AxisScale(const Axis& axis, const std::vector<std::span<const double>>& values, Ends ends, double first_pixel,
            double last_pixel);

  /// Finite, and positive on a logarithmic axis.
  bool can_show(double value) const;
  double pixel(double value) const;

  /// 1, 2 or 5 times a power of ten apart, or on a logarithmic axis at powers of ten (over less than three decades at
  /// their 2 and 5 fold as well); all inside the range.
  std::vector<double> ticks() const;
  std::string label(double tick) const;

  double low() const { return low_; }
  double high() const { return high_; }

 private:
  void choose_linear_range(const Axis& axis, Ends ends);
  void choose_logarithmic_range(const Axis& axis);

  bool logarithmic_;
  double low_, high_, step_ = 1, first_pixel_, last_pixel_;
};

}  // namespace fovea
