/// Small computations that papers draw, without a trained run: windows, selection of keys, location weights, and a
/// bound.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "experiments/support/report/finding.h"

namespace fovea {

class Cli;

/// The window between two pointers: F, S and the mask m. Nguyen et al. 2020, figures 1 and 2. Positions count from 0.
struct WindowDemo {
  int left = 2, right = 7, length = 10;
  std::vector<double> left_pointer = {},
                      right_pointer = {};  ///< distributions over the keys; empty: all mass at left and right
  int segment = 1;
  std::string mask = "paper";  ///< of the method window: paper, exact, prob_or, discrete

  void add_to(Cli& cli);
};
Finding window_demo(const WindowDemo& options);

/// One step of flexible attention with a threshold. Shu & Nakayama 2017, figure 2.
struct FlexibleDemo {
  std::vector<double> scores{.2, 1, .5, 2, .1, -.3, .8, 0};
  double focus = 2.25, gate = .6, sigma = 1.5, threshold = 1.2;

  void add_to(Cli& cli);
};
Finding flexible_demo(const FlexibleDemo& options);

/// Mean, Laplace and Gaussian weights of one query, and of all queries as matrices. Watson 2019.
struct LocationDemo {
  int length = 20;
  std::vector<double> scales{1, 2};  ///< b and sigma, in tokens
  bool normalize = false;

  void add_to(Cli& cli);
};
Finding location_demo(const LocationDemo& options);

/// Draws vectors a, b, c and matrices W_Q, W_K and compares the distance of a W_Q and c W_K with the largest of the
/// three distances on the path a, b, c: |a W_Q - c W_K|^2 <= 9 delta. Fan et al. 2021, eq. 10. distance_bound() throws
/// Error if a draw is above the bound.
struct DistanceBound {
  std::int64_t draws = 10'000, width = 8;
  std::uint64_t seed = 1;

  void add_to(Cli& cli);
};
Finding distance_bound(const DistanceBound& options);

}  // namespace fovea
