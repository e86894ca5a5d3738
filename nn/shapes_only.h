/// Models without memory: to count their parameters, and to check what they are made of.
#pragma once

namespace fovea {

/// Models that are made while one of these lives have the shapes of their parameters and no memory for values: models
/// of any size can be counted, described, and checked at once. They cannot be initialised.
class ShapesOnly {
 public:
  ShapesOnly();
  ~ShapesOnly();
  ShapesOnly(const ShapesOnly&) = delete;
  ShapesOnly& operator=(const ShapesOnly&) = delete;

 private:
  bool before_;
};

}  // namespace fovea
