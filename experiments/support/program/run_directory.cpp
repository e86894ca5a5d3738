#include "experiments/support/program/run_directory.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include "experiments/support/data/split_mix.h"
#include "experiments/support/program/cli.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {
namespace fs = std::filesystem;
namespace {

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))); }

/// Creates the directory and those above it. Returns false if it existed.
bool make_directory(const fs::path& path) {
  std::error_code error;
  if (path.has_parent_path()) fs::create_directories(path.parent_path(), error);
  bool made = !error && fs::create_directory(path, error);
  require(!error, "{}: the directory cannot be created: {}", path.string(), error.message());
  return made;
}

/// "config.json, data.json and 3 more", in alphabetical order.
std::string listing(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  constexpr std::size_t shown = 2;
  std::string result;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i) result += (i ? ", " : "") + names[i];
  if (names.size() > shown) result += fmt::format(" and {} more", names.size() - shown);
  return result;
}

fs::path first_free(const std::string& program) {
  for (int n = 1;; ++n) {
    fs::path path = fs::path("runs") / fmt::format("{}-{}-{}", program, today(), n);
    if (make_directory(path)) return path;
  }
}

}  // namespace

void RunDirectory::Options::add_to(Cli& cli) {
  cli.group("Run directory");
  cli.option("--out", out, "new directory for the run; default: runs/PROGRAM-DATE-N").unsaved();
  cli.option("--resume", resume, "continue the run in this directory, with its configuration").unsaved().configures();
}

RunDirectory RunDirectory::open(const std::string& program, const Options& options, const Json& configuration) {
  bool resuming = !options.resume.empty();
  require(!resuming || options.out.empty() || options.out == options.resume,
          "--resume continues in its own directory; leave out --out");
  if (resuming) {
    RunDirectory run = resume(options.resume);
    require_same_configuration(run.configuration(), load_json(run.configuration()), configuration, changeable_options);
    save_json(run.configuration(), configuration);
    return run;
  }
  RunDirectory run = create(program, options.out);
  save_json(run.configuration(), configuration);
  return run;
}

RunDirectory RunDirectory::create(const std::string& program, const fs::path& out) {
  if (out.empty()) return RunDirectory(first_free(program), true);
  bool made = make_directory(out);
  require(made || fs::is_empty(out),
          "--out {0}: the directory is not empty ({1}); name a new one, or continue that run: --resume {0}",
          out.string(), made ? "" : listing(out));
  return RunDirectory(out, made);
}

RunDirectory RunDirectory::resume(const fs::path& path) {
  std::error_code error;
  require(fs::is_directory(path, error), "--resume {}: there is no such directory", path.string());
  return RunDirectory(path);
}

RunDirectory::RunDirectory(fs::path path, bool made) : path_(std::move(path)), made_(made) {
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  require(lock_ >= 0, "{}: cannot be opened: {}", path_.string(), std::generic_category().message(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    fail("{}: another process is running in this directory", path_.string());
  }
}

RunDirectory::RunDirectory(RunDirectory&& other) noexcept
    : path_(std::move(other.path_)), made_(other.made_), lock_(std::exchange(other.lock_, -1)) {}

RunDirectory& RunDirectory::operator=(RunDirectory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(made_, other.made_);
  std::swap(lock_, other.lock_);
  return *this;
}

RunDirectory::~RunDirectory() {
  if (lock_ >= 0) ::close(lock_);
}

void RunDirectory::discard() const {
  if (made_) {
    fs::remove_all(path_);
    return;
  }
  for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
}

RunDirectory RunDirectory::part(const std::string& label) const {
  fs::path inside = path_ / file_name_for(label);
  make_directory(inside);
  return RunDirectory(inside);
}

void require_trained(const fs::path& directory, const std::string& flag) {
  auto is_trained = [](const fs::path& run) { return fs::exists(run / "best.safetensors"); };
  if (is_trained(directory)) return;
  std::vector<std::string> runs;
  if (fs::is_directory(directory)) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (is_trained(entry.path())) runs.push_back(entry.path().filename().string());
    }
  }
  std::sort(runs.begin(), runs.end());
  require(runs.empty(), "{}{}: is the directory of a comparison; name one of its runs: {}", flag, directory.string(),
          listed(runs));
  fail("{}{}: the directory has no trained model (best.safetensors)", flag, directory.string());
}

std::string file_name_for(const std::string& label) {
  std::string name;
  for (unsigned char c : label) {
    bool stays = std::isalnum(c) || c >= 0x80 || c == '_' || c == '+' || c == '=' || (c == '.' && !name.empty());
    if (stays) {
      name += char(c);
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && name.back() == '-') name.pop_back();
  constexpr std::size_t longest = 120;  // file systems end at 255, and suffixes follow
  if (name.size() > longest) {
    std::size_t end = longest;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;  // not within a character
    name = fmt::format("{}-{:016x}", name.substr(0, end), stable_hash(label));
  }
  return name.empty() ? "part" : name;
}

}  // namespace fovea
