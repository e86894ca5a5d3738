/// What the tests of .npy and .safetensors files share.
#pragma once
#include <algorithm>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>
#include <sys/stat.h>

#include "tensor/tensor.h"
#include "tests/damage.h"
#include "tests/files.h"

namespace fovea {

/// The files that other packages wrote; tests run in the project's folder.
inline std::filesystem::path golden(const std::string& name) { return std::filesystem::path("tests/goldens") / name; }

inline std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

/// The values that tests/reference/tensor_files.py puts into every file.
inline Tensor golden_values(DType dtype, const Shape& shape) {
  Tensor out = Tensor::empty(shape, dtype);
  visit(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    for (std::int64_t i = 0; i < out.elements(); ++i) {
      std::int64_t pattern = i * 7 % 11 - 3;
      T& to = out.mutable_data<T>()[i];
      if constexpr (std::is_same_v<T, bool>)
        to = (pattern + 4) % 2 == 1;
      else if constexpr (std::is_same_v<T, std::uint8_t>)
        to = static_cast<T>(pattern * 20 + 60);
      else if constexpr (std::is_integral_v<T>)
        to = static_cast<T>(pattern * (std::int64_t{1} << (sizeof(T) == 8 ? 58 : 26)) + 1);
      else
        to = T(static_cast<double>(pattern) * (sizeof(T) == 8 ? 0.1 : 0.25));
    }
  });
  return out;
}

/// Any bits the type has: NaNs with payloads, infinities, denormals.
inline Tensor random_bits(DType dtype, const Shape& shape, std::mt19937& random) {
  Tensor out = Tensor::empty(shape, dtype);
  for (std::size_t i = 0; i < out.bytes(); ++i)
    out.mutable_address()[i] = std::byte(random() % (out.dtype() == DType::boolean ? 2 : 256));
  return out;
}

/// The same type, shape and bits, whatever the strides.
inline bool same(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  Tensor x = a.contiguous(), y = b.contiguous();
  return std::memcmp(x.address(), y.address(), x.bytes()) == 0;
}

/// What is no file is named, with what it is; `read` reads a file of this `kind`.
inline void check_that_other_things_are_named(const std::function<void(const std::filesystem::path&)>& read,
                                              const std::string& kind) {
  Folder folder;
  auto message = [&](const std::string& path) { return message_of([&] { read(path); }); };
  auto path = [&](const char* name) { return (folder / name).string(); };
  BOOST_TEST(message(folder.path.string()) == folder.path.string() + ": is a directory, expected a file");
  BOOST_TEST(message(path("none")) == path("none") + ": cannot be read: No such file or directory");
  BOOST_REQUIRE(::mkfifo(path("pipe").c_str(), 0600) == 0);
  BOOST_TEST(message(path("pipe")) == path("pipe") + ": is a pipe or device, expected a file");
  std::ofstream(path("empty")).flush();
  BOOST_TEST(message(path("empty")) == path("empty") + ": has 0 bytes, a " + kind + " file has at least 8");
}

/// The whole file is accepted and none of its beginnings; `refusal` parses it as "f" and returns the message.
inline void check_that_every_cut_is_refused(const std::string& whole,
                                            const std::function<std::string(const std::string&)>& refusal) {
  BOOST_TEST(refusal(whole) == "no error");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    auto message = refusal(whole.substr(0, size));
    BOOST_REQUIRE_MESSAGE(message.starts_with("f: "), size << ": " << message);
  }
}

}  // namespace fovea
