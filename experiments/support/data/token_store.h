/// Texts as token numbers, one behind the other in memory.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fovea {

class TokenStore {
 public:
  void append(std::span<const int> tokens) {
    begins_.push_back(tokens_.size());
    lengths_.push_back(std::ssize(tokens));
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  }
  std::size_t size() const { return lengths_.size(); }
  /// Tokens of each text.
  std::span<const std::int64_t> lengths() const { return lengths_; }
  /// The tokens of text k.
  std::span<const std::int32_t> operator[](std::size_t k) const {
    return std::span(tokens_).subspan(begins_[k], static_cast<std::size_t>(lengths_[k]));
  }
  /// Copies text k to `to`, which has room for its length.
  void read(std::size_t k, std::span<std::int32_t> to) const { std::ranges::copy((*this)[k], to.begin()); }

 private:
  std::vector<std::size_t> begins_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int32_t> tokens_;
};

/// The tokens of text k.
inline std::vector<std::int32_t> tokens_at(const TokenStore& store, std::size_t k) {
  return {store[k].begin(), store[k].end()};
}

}  // namespace fovea
