/// Tensors that several parts of a model compute from the same lengths and sizes in one call, such as masks of padding.
#pragma once
#include <any>
#include <map>
#include <string>

namespace fovea {

/// Lives as long as one call of a model. The first part that needs a tensor makes it, under a name that says all that
/// it depends on; the others take it.
class SharedTensors {
 public:
  template <class Make>
  auto once(const std::string& name, const Make& make) {
    using Made = decltype(make());
    const auto known = made_.find(name);
    if (known != made_.end()) return std::any_cast<Made>(known->second);
    Made made = make();
    made_.emplace(name, made);
    return made;
  }

 private:
  std::map<std::string, std::any> made_;
};

}  // namespace fovea
