/// Sine and cosine of angles so large that the nearest multiple of π, as f32 or f64 represent π, is far from the right
/// one (Payne and Hanek 1983). math.h calls it; the CPU only.
#pragma once
#include <cstdint>

namespace fovea::approximation {

/// sin(x), or with `plus_right_angle` sin(x + π / 2), which is cos(x). Error < 3 ulp for |x| ≥ 1; NaN for ±inf and NaN.
double sine_of_large(double x, bool plus_right_angle);

}  // namespace fovea::approximation
