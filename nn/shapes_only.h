/// Constructing models without memory for their parameters, to count them or to check a specification.
#pragma once

namespace fovea {

/// Parameters created on this thread during the lifetime of this object have shapes but no memory for values. Models of
/// any size can be constructed, counted and described almost at once. Module::initialise() throws Error for them.
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
