/// The scale of an axis: values to pixels, with ticks at round numbers.
#pragma once
#include <string>
#include <vector>

#include "experiments/support/report/svg.h"

namespace fovea {

/// Maps [low, high] to [first_pixel, last_pixel].
class AxisScale {
 public:
  enum class Ends { at_ticks, at_data };

  /// The range is that of all values that can_show(), within the bounds of the axis. A range without width is widened.
  AxisScale(const Axis& axis, const std::vector<double>& values, Ends ends, double first_pixel, double last_pixel);

  /// Moves the ends to other pixels.
  void place(double first_pixel, double last_pixel) { first_pixel_ = first_pixel, last_pixel_ = last_pixel; }
  static bool can_show(double value);  ///< whether it is finite
  double pixel(double value) const;

  /// Ticks inside the range, 1, 2 or 5 times a power of ten apart.
  std::vector<double> ticks() const;
  std::string label(double tick) const;

  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_, high_, step_ = 1, first_pixel_, last_pixel_;
};

}  // namespace fovea
