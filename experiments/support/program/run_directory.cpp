#include "experiments/support/program/run_directory.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <system_error>
#include <utility>

#include <fmt/chrono.h>
#include <sys/file.h>
#include <unistd.h>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/hugging_face.h"
#include "experiments/support/text/split_mix.h"
#include "experiments/support/text/words.h"
#include "nn/parallel/process_group.h"
#include "tensor/error.h"

namespace fovea {

FileLock::FileLock(const std::filesystem::path& path) : file_(std::fopen(path.c_str(), "ae")) {
  require(is_held(), "{}: cannot be written: {}", path.string(), std::generic_category().message(errno));
}

FileLock FileLock::attempt(const std::filesystem::path& path, Kind kind) {
  FileLock lock(path);
  return lock.lock(kind) ? std::move(lock) : FileLock();
}

FileLock FileLock::wait(const std::filesystem::path& path, const std::function<void()>& before_waiting) {
  FileLock lock(path);
  if (lock.lock(Kind::exclusive)) return lock;
  before_waiting();
  while (::flock(::fileno(lock.file_.get()), LOCK_EX) != 0 && errno == EINTR) continue;
  return lock;
}

bool FileLock::lock(Kind kind) {
  const int how = (kind == Kind::exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB;
  return ::flock(::fileno(file_.get()), how) == 0 || errno != EWOULDBLOCK;
}

bool FileLock::become_exclusive() {
  const bool is_exclusive = lock(Kind::exclusive);
  if (!is_exclusive) file_.reset();
  return is_exclusive;
}

namespace fs = std::filesystem;
namespace {

std::string today() { return fmt::format("{:%Y-%m-%d}", fmt::localtime(std::time(nullptr))); }

/// Creates the directory and those above it. Returns the uppermost that was missing; empty if the directory existed.
fs::path make_directory(const fs::path& path) {
  std::error_code error;
  const fs::path directory = path.has_filename() ? path : path.parent_path();  // "runs/a/" is "runs/a"
  fs::path uppermost = directory;
  while (uppermost.has_parent_path() && !fs::exists(uppermost.parent_path(), error))
    uppermost = uppermost.parent_path();
  if (directory.has_parent_path()) fs::create_directories(directory.parent_path(), error);
  const bool made = !error && fs::create_directory(directory, error);
  require(!error, "{}: the directory cannot be created: {}", path.string(), error.message());
  return made ? uppermost : fs::path();
}

constexpr const char *lock_file = ".lock", *turn_file = ".turn", *of_a_process = "fovea-process-";

/// The files and directories in a directory, in alphabetical order, without the locks.
std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(directory))
    if (entry.path().filename() != lock_file && entry.path().filename() != turn_file) files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

std::string listing(const fs::path& directory) {
  std::vector<std::string> names;
  for (const fs::path& file : files_in(directory)) names.push_back(file.filename().string());
  return first_few(names);
}

/// Removes the temporary directories of processes that were killed: nobody holds their locks. A young one may have no
/// lock yet.
void remove_abandoned() {
  std::error_code ignored;
  const auto young = fs::file_time_type::clock::now() - std::chrono::minutes(1);
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
    if (entry.path().filename().string().starts_with(of_a_process) && entry.last_write_time(ignored) < young) try {
        const FileLock lock = FileLock::attempt(entry.path() / lock_file, FileLock::Kind::exclusive);
        if (lock.is_held()) fs::remove_all(entry.path(), ignored);
      } catch (const Error&) {  // the directory of another user
      }
}

}  // namespace

void RunDirectory::Options::add_to(Cli& cli) {
  cli.group("Run directory", false);
  cli.option("--out", out, "new directory for the run; default: runs/PROGRAM-DATE-N");
  cli.option("--resume", resume, "continue the run in this directory, with its configuration").configures();
}

RunDirectory RunDirectory::open(const std::string& program, const Options& options, const Json& configuration) {
  if (!processes().is_first()) return of_another_process(configuration);
  const bool resuming = !options.resume.empty();
  require(!resuming || options.out.empty() || options.out == options.resume,
          "--resume continues in its own directory; leave out --out");
  RunDirectory run = resuming        ? resume(options.resume, options.access)
                     : options.joins ? join(options.out, options.access, configuration)
                                     : create(program, options.out, options.access);
  if (resuming)
    require_same_configuration(run.configuration(), load_json(run.configuration()), configuration, changeable_options);
  run.is_new_ = !fs::exists(run.configuration());
  if (run.is_new_) save_json(run.configuration(), configuration);
  if (fs::exists(run.file("data.json"))) run.end_turn();
  return run;
}

RunDirectory RunDirectory::of_another_process(const Json& configuration) {
  remove_abandoned();
  std::string path = (fs::temp_directory_path() / of_a_process).string() + "XXXXXX";
  require(::mkdtemp(path.data()), "{}: the directory cannot be created: {}", path,
          std::generic_category().message(errno));
  RunDirectory run(path, Access::alone, path);
  run.temporary_ = std::shared_ptr<void>(nullptr, [path](void*) {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  });
  save_json(run.configuration(), configuration);
  return run;
}

RunDirectory RunDirectory::create(const std::string& program, const fs::path& out, Access access) {
  for (int n = 1; out.empty(); ++n) {
    const fs::path path = fs::path("runs") / fmt::format("{}-{}-{}", program, today(), n);
    if (const fs::path made = make_directory(path); !made.empty()) return {path, access, made};
  }
  const fs::path made = make_directory(out);
  require(files_in(out).empty(),
          "--out {0}: the directory is not empty ({1}); name a new one, or continue that run: --resume {0}",
          out.string(), listing(out));
  return {out, access, made};
}

RunDirectory RunDirectory::resume(const fs::path& path, Access access) {
  std::error_code error;
  require(fs::is_directory(path, error), "--resume {}: {}", path.string(),
          fs::exists(path, error) ? "is a file, expected the directory that a training left"
                                  : "there is no such directory");
  return {path, access};
}

/// Opens the directory of an experiment with this configuration, whether or not another process has begun it.
RunDirectory RunDirectory::join(const fs::path& path, Access access, const Json& configuration) {
  RunDirectory run(path, access, make_directory(path));
  if (fs::exists(run.configuration()))
    require_same_configuration(run.configuration(), load_json(run.configuration()), configuration,
                               {"made-for", "methods"});
  else
    require(files_in(path).empty(), "--out {}: has files ({}) but no config.json; name a new directory", path.string(),
            listing(path));
  return run;
}

RunDirectory::RunDirectory(fs::path path, Access access, fs::path made)
    : path_(path.has_filename() ? std::move(path) : path.parent_path()), made_(std::move(made)), access_(access) {
  const FileLock::Kind kind = access == Access::shared ? FileLock::Kind::shared : FileLock::Kind::exclusive;
  lock_ = FileLock::attempt(file(lock_file), kind);
  require(lock_.is_held(), "{}: another process is running in this directory", path_.string());
  take_turn();
}

void RunDirectory::take_turn() {
  if (access_ == Access::alone || turn_.is_held()) return;
  turn_ = FileLock::wait(file(turn_file), [&] {
    fmt::print(stderr, "waiting for another process, which prepares the data or the table in {}\n", path_.string());
  });
}

bool RunDirectory::is_last() { return access_ == Access::alone || lock_.become_exclusive(); }

void RunDirectory::discard() {
  const bool last = is_last();
  for (const fs::path& entry : files_in(path_)) fs::remove_all(entry);
  for (const char* name : {lock_file, turn_file})
    if (last) fs::remove(file(name));
  std::error_code not_empty;
  for (fs::path made = path_; last && !made_.empty() && fs::remove(made, not_empty); made = made.parent_path())
    if (made == made_) return;
}

fs::path RunDirectory::path_of_part(const std::string& label) const { return path_ / file_name_for(label); }

RunDirectory RunDirectory::part(const std::string& label) const {
  fs::path inside = path_of_part(label);
  make_directory(inside);
  return {inside, Access::alone};
}

void require_trained(const fs::path& directory, const std::string& flag) {
  auto is_trained = [](const fs::path& run) { return fs::exists(run / "best.safetensors") || is_hugging_face(run); };
  if (is_trained(directory)) return;
  require(!fs::is_regular_file(directory), "{}{}: is a file, expected the directory that a training left", flag,
          directory.string());
  std::vector<std::string> runs;
  if (fs::is_directory(directory)) {
    for (const auto& entry : fs::directory_iterator(directory)) {
      if (is_trained(entry.path())) runs.push_back(entry.path().filename().string());
    }
  }
  std::ranges::sort(runs);
  require(runs.empty(), "{}{}: is the directory of a comparison; name one of its runs: {}", flag, directory.string(),
          alternatives(runs));
  fail("{}{}: the directory has no trained model (best.safetensors)", flag, directory.string());
}

void require_no_file_of_run(const char* flag, const fs::path& file) {
  const fs::path directory = file.has_parent_path() ? file.parent_path() : ".";
  const std::string name = file.filename().string();
  constexpr std::string_view names[] = {"config.json",    "run.json",           "data.json",      "log.jsonl",
                                        "result.json",    "pictures.json",      "tokenizer.json", "tokens.json",
                                        "vocabulary.txt", "hypotheses.txt",     "references.txt", "output.txt",
                                        "build.ninja",    "sentencepiece.model"};
  const bool is_of_run = std::ranges::count(names, name) > 0 || name.ends_with(".safetensors") ||
                         name.starts_with("examples.") || name.starts_with("events.out.tfevents");
  require(!is_of_run || !fs::exists(directory / "config.json"),
          "{} {}: is a file of the run in {}, and would be replaced; name another one", flag, file.string(),
          directory.string());
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
