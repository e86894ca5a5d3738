/// Texts as token numbers, as many as a disk holds: tokens beyond a budget of memory are in a temporary file without a
/// name, which the system deletes when the process ends.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace fovea {

class TokenStore {
 public:
  TokenStore() : TokenStore(default_memory) {}
  /// Token numbers beyond `memory` bytes are kept in a file in `directory` (empty: where the system has temporary
  /// files), which must have room for it; lengths and places, 16 bytes a text, are always in memory.
  explicit TokenStore(std::size_t memory, std::filesystem::path directory = {});
  /// Throws Error where the disk is full.
  void append(std::span<const int> tokens);
  std::size_t size() const { return lengths_.size(); }
  /// Tokens of each text.
  std::span<const std::int64_t> lengths() const { return lengths_; }
  /// Copies text k to `to`, which has room for its length. Several threads may call it once all texts are appended.
  void read(std::size_t k, std::span<std::int32_t> to) const;

  static constexpr std::size_t default_memory = std::size_t{1} << 28;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  void write_out();

  std::size_t memory_;
  std::filesystem::path directory_;
  std::vector<std::int64_t> lengths_, begins_;  ///< in tokens
  std::vector<std::int32_t> tokens_;            ///< the tokens from number on_disk_ on, which are not in the file
  std::int64_t on_disk_ = 0;                    ///< tokens in the file
  std::unique_ptr<std::FILE, Close> file_;
};

/// The tokens of text k.
std::vector<std::int32_t> tokens_at(const TokenStore& store, std::size_t k);

}  // namespace fovea
