/// Multithreading: divides a loop among threads.
#pragma once
#include <cstdint>
#include <memory>
#include <type_traits>

namespace fovea {

/// A reference to a callable, which the caller must keep alive while the reference is in use; std::function, in
/// contrast, owns a copy. Loops that take a FunctionRef are compiled once, not once for every body.
template <class Signature>
class FunctionRef;
template <class Result, class... Arguments>
class FunctionRef<Result(Arguments...)> {
 public:
  template <class Body, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<Body>, FunctionRef>>>
  FunctionRef(Body&& body)  // NOLINT: implicit, so that a lambda can be passed
      : body_(const_cast<void*>(static_cast<const void*>(std::addressof(body)))),
        call_([](void* callee, Arguments... arguments) -> Result {
          return (*static_cast<std::remove_reference_t<Body>*>(callee))(static_cast<Arguments>(arguments)...);
        }) {}
  Result operator()(Arguments... arguments) const { return call_(body_, static_cast<Arguments>(arguments)...); }

 private:
  void* body_;
  Result (*call_)(void*, Arguments...);
};

/// Returns how many threads a loop that begins here may use: 1 inside another parallel loop.
int available_threads();

/// Divides [0, n) into one range per thread and calls body(begin, end) for each range. `grain` is the smallest range
/// that is worth a thread: if n is less than two grains, or inside another parallel loop, the calling thread runs the
/// whole loop. The ranges depend on the number of threads, so the results of `body` must not depend on how [0, n) is
/// divided. An exception thrown by `body` is rethrown in the caller.
void parallel_for(std::int64_t n, std::int64_t grain, FunctionRef<void(std::int64_t begin, std::int64_t end)> body);

/// The number of elements that is worth a thread if each takes simple arithmetic: about ten microseconds of work.
inline constexpr std::int64_t element_grain = 16384;

/// Sets whether all threads flush denormals to zero. f32 programs do, because the tails of Gaussians are denormal and
/// denormals are slow; f64 tests do not. Has an effect only on x86: elsewhere denormals are always kept.
void set_flush_denormals(bool flush);

}  // namespace fovea
