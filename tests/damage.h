/// Input that somebody has damaged, by accident or on purpose.
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <boost/test/unit_test.hpp>

#include "tensor/error.h"

namespace fovea {

/// One of the ways in which text and files are damaged; `tokens` are texts that mean something to the format.
inline std::string mutated(std::string file, const std::vector<std::string>& tokens, std::mt19937& random) {
  auto below = [&](std::size_t n) { return n == 0 ? 0 : random() % n; };
  for (std::size_t changes = 1 + below(3); changes > 0; --changes) {
    std::size_t at = below(file.size() + 1), length = below(std::min<std::size_t>(file.size() - at, 40) + 1);
    const std::string& token = tokens[below(tokens.size())];
    switch (below(7)) {
      case 0:
        if (at < file.size()) file[at] = static_cast<char>(file[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < file.size()) file[at] = static_cast<char>(random());
        break;
      case 2:
        file.resize(at);
        break;
      case 3:
        file.erase(at, length);
        break;
      case 4:
        file.insert(below(file.size() + 1), file.substr(at, length));
        break;
      case 5:
        file.insert(at, token);
        break;
      case 6:
        file.replace(at, std::min(length, token.size()), token);
        break;
    }
  }
  return file;
}

/// Runs `parse`, which must either succeed or throw an Error of one printable line that begins with `beginning`.
/// True if it succeeded.
inline bool accepts_or_explains(const std::function<void()>& parse, const std::string& beginning) {
  try {
    parse();
    return true;
  } catch (const Error& error) {
    std::string message = error.what();
    bool one_line = std::none_of(message.begin(), message.end(), [](unsigned char c) { return c < 0x20; });
    BOOST_REQUIRE_MESSAGE(message.starts_with(beginning) && one_line && message.size() < 1000, message);
    return false;
  }
}

}  // namespace fovea
