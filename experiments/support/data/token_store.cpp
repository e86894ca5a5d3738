#include "experiments/support/data/token_store.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <stdlib.h>
#include <unistd.h>

#include "tensor/error.h"

namespace fovea {

TokenStore::TokenStore(std::size_t memory, std::filesystem::path directory)
    : memory_(memory), directory_(std::move(directory)) {}

void TokenStore::append(std::span<const int> tokens) {
  begins_.push_back(on_disk_ + std::ssize(tokens_));
  lengths_.push_back(std::ssize(tokens));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (tokens_.size() * sizeof(std::int32_t) > memory_) write_out();
}

void TokenStore::write_out() {
  if (!file_) {
    std::error_code error;
    if (directory_.empty()) directory_ = std::filesystem::temp_directory_path(error);
    const char* place = std::getenv("TMPDIR");
    require(!error, "TMPDIR: '{}' is no directory; tokens that do not fit into memory need one",
            place ? place : "/tmp");
    std::string name = (directory_ / "fovea-tokens-XXXXXX").string();
    const int descriptor = ::mkstemp(name.data());
    require(descriptor >= 0, "{}: cannot be written: {}", directory_.string(), std::strerror(errno));
    ::unlink(name.c_str());
    file_.reset(::fdopen(descriptor, "w+b"));
  }
  const bool is_written =
      std::fwrite(tokens_.data(), sizeof(std::int32_t), tokens_.size(), file_.get()) == tokens_.size() &&
      std::fflush(file_.get()) == 0;
  on_disk_ += std::ssize(tokens_);
  require(is_written, "{}: {} tokens do not fit: {}; TMPDIR names another place", directory_.string(), on_disk_,
          std::strerror(errno));
  tokens_.clear();
}

void TokenStore::read(std::size_t k, std::span<std::int32_t> to) const {
  const std::int64_t begin = begins_[k];
  const auto length = static_cast<std::size_t>(lengths_[k]);
  require(to.size() >= length, "token store: text {} has {} tokens, there is room for {}", k, length, to.size());
  if (begin >= on_disk_) {
    std::copy_n(tokens_.begin() + (begin - on_disk_), length, to.begin());
    return;
  }
  constexpr auto width = static_cast<std::int64_t>(sizeof(std::int32_t));
  const ssize_t got = ::pread(::fileno(file_.get()), to.data(), length * sizeof(std::int32_t), begin * width);
  require(got == lengths_[k] * width, "{}: the file of tokens cannot be read: {}", directory_.string(),
          std::strerror(errno));
}

std::vector<std::int32_t> tokens_at(const TokenStore& store, std::size_t k) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(store.lengths()[k]));
  store.read(k, tokens);
  return tokens;
}

}  // namespace fovea
