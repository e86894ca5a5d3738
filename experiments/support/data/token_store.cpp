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

namespace {

std::filesystem::path place_of_temporary_files() {
  std::error_code error;
  std::filesystem::path place = std::filesystem::temp_directory_path(error);
  const char* place_in_environment = std::getenv("TMPDIR");
  require(!error, "TMPDIR: '{}' is no directory; tokens that do not fit into memory need one",
          place_in_environment ? place_in_environment : "/tmp");
  return place;
}

}  // namespace

TokenStore::TokenStore(std::size_t memory, std::filesystem::path directory)
    : memory_(memory), directory_(std::move(directory)) {}

NamelessFile::NamelessFile(const std::filesystem::path& directory) {
  std::string name = (directory / "fovea-tokens-XXXXXX").string();
  descriptor = ::mkstemp(name.data());
  require(descriptor >= 0, "{}: cannot be written: {}", directory.string(), std::strerror(errno));
  ::unlink(name.c_str());
}

NamelessFile::~NamelessFile() {
  if (descriptor >= 0) ::close(descriptor);
}

void TokenStore::append(std::span<const int> tokens) {
  begins_.push_back(on_disk_ + static_cast<std::int64_t>(tokens_.size()));
  lengths_.push_back(static_cast<std::int64_t>(tokens.size()));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (tokens_.size() * sizeof(std::int32_t) > memory_) write_out();
}

void TokenStore::write_out() {
  if (directory_.empty()) directory_ = place_of_temporary_files();
  if (file_.descriptor < 0) file_ = NamelessFile(directory_);
  const char* at = reinterpret_cast<const char*>(tokens_.data());
  std::size_t left = tokens_.size() * sizeof(std::int32_t);
  while (left > 0) {
    ssize_t written = ::write(file_.descriptor, at, left);
    if (written < 0 && errno == EINTR) continue;
    require(written > 0, "{}: {} tokens do not fit: {}; TMPDIR names another place", directory_.string(),
            on_disk_ + static_cast<std::int64_t>(tokens_.size()), std::strerror(errno));
    at += written, left -= static_cast<std::size_t>(written);
  }
  on_disk_ += static_cast<std::int64_t>(tokens_.size());
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
  auto* at = reinterpret_cast<char*>(to.data());
  std::size_t left = length * sizeof(std::int32_t);
  auto place = static_cast<off_t>(begin) * static_cast<off_t>(sizeof(std::int32_t));
  while (left > 0) {
    ssize_t got = ::pread(file_.descriptor, at, left, place);
    if (got < 0 && errno == EINTR) continue;
    require(got > 0, "{}: the file of tokens cannot be read: {}", directory_.string(), std::strerror(errno));
    at += got, place += got, left -= static_cast<std::size_t>(got);
  }
}

std::vector<std::int32_t> tokens_at(const TokenStore& store, std::size_t k) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(store.lengths()[k]));
  store.read(k, tokens);
  return tokens;
}

}  // namespace fovea
