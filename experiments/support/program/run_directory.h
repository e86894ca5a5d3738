/// The directory of a run's files.
#pragma once
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

/// A lock on a file, which is created if it is missing, and stays. The lock goes with the object, or with the process
/// if that is killed. It holds between machines that share a file system with locks (NFS; Lustre mounted with `flock`);
/// without them every lock is granted.
class FileLock {
 public:
  enum class Kind { shared, exclusive };

  FileLock() = default;  ///< no lock
  /// Not held if a lock of another process excludes this one.
  static FileLock attempt(const std::filesystem::path& path, Kind kind);
  /// Waits for an exclusive lock; calls before_waiting() if another process has one.
  static FileLock wait(const std::filesystem::path& path, const std::function<void()>& before_waiting);

  bool is_held() const { return file_ != nullptr; }
  /// Makes a shared lock exclusive if no other process shares it. Otherwise the lock is released.
  bool become_exclusive();

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  explicit FileLock(const std::filesystem::path& path);
  /// False if another process holds a lock that excludes `kind`.
  bool lock(Kind kind);

  std::unique_ptr<std::FILE, Close> file_;
};

class Cli;

/// The options that may change when a run continues: with more updates a finished run is extended, and a run may
/// continue on another device or with other memory. A shared object of --methods may have moved.
inline const std::vector<std::string> changeable_options{"updates", "patience",  "evaluate-every", "checkpoint-every",
                                                         "device",  "recompute", "made-for",       "methods"};

/// How many processes work in a directory. In a shared one each makes other runs of one experiment.
enum class Access { alone, shared };

/// A directory that belongs to one run, and to one process at a time (it is locked until the object goes); or that of a
/// comparison, in which several processes work.
///
///   checkpoint.safetensors   where --resume continues
///   best.safetensors         the best model on the development set
///   report.html              tables and pictures
///   .lock, .turn             files for the locks of the processes that work here
///
/// record/record.h lists the other files.
///
/// Processes that share a directory take turns at the files of the whole experiment: config.json, the vocabulary,
/// data.json, run.json and report.html. An opened directory has the turn unless data.json exists already: so the first
/// process prepares the data, and the others wait and read them. In a directory of one process turns mean nothing.
class RunDirectory {
 public:
  struct Options {
    std::filesystem::path out;     ///< --out: a new or empty directory; empty: runs/PROGRAM-DATE-N
    std::filesystem::path resume;  ///< --resume: the directory of a run to continue
    bool joins = false;            ///< `out` may also have files, if their configuration is the same
    Access access = Access::alone;
    void add_to(Cli& cli);
  };

  /// Opens the directory of a program's run: a new one, with config.json in it, or the one to resume or to join, whose
  /// files stay as they are. Throws Error if its config.json differs from `configuration`, apart from
  /// changeable_options. Of several processes that train together the first one opens it; each of the others gets a
  /// temporary directory, which is removed with the object.
  static RunDirectory open(const std::string& program, const Options& options, const Json& configuration);

  /// Creates the directory `out`; if `out` is empty, runs/PROGRAM-DATE-N with the first free N = 1, 2, ... Throws Error
  /// if the directory has files in it or cannot be created.
  static RunDirectory create(const std::string& program, const std::filesystem::path& out,
                             Access access = Access::alone);

  /// Opens the directory of an existing run. Throws Error if there is none, or if another process has opened it and
  /// does not share it.
  static RunDirectory resume(const std::filesystem::path& path, Access access = Access::alone);

  /// Opens or creates a directory inside this one for one run of a comparison. Its name is file_name_for(label).
  RunDirectory part(const std::string& label) const;
  std::filesystem::path path_of_part(const std::string& label) const;

  /// Waits for this process's turn, unless it has the turn.
  void take_turn();
  void end_turn() { turn_ = FileLock(); }
  /// Whether no other process works in the directory. If one does, this process no longer counts as working here:
  /// where several processes end at once, the answer is true for the last of them alone. Needs the turn.
  bool is_last();

  /// Removes all files of the directory, and the directory itself and those above it if this object created them. If
  /// other processes wait in it, the directory and its locks stay.
  void discard();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  std::filesystem::path configuration() const { return file("config.json"); }
  std::filesystem::path log() const { return file("log.jsonl"); }
  std::filesystem::path checkpoint() const { return file("checkpoint.safetensors"); }
  std::filesystem::path best() const { return file("best.safetensors"); }
  std::filesystem::path report() const { return file("report.html"); }
  /// Whether open() wrote config.json: no other process did.
  bool is_new() const { return is_new_; }

 private:
  RunDirectory(std::filesystem::path path, Access access, std::filesystem::path made = {});
  static RunDirectory of_another_process(const Json& configuration);
  static RunDirectory join(const std::filesystem::path& path, Access access, const Json& configuration);

  std::filesystem::path path_;
  std::filesystem::path made_;  ///< the uppermost directory that this object created; empty: none
  Access access_ = Access::alone;
  bool is_new_ = false;              ///< whether this object wrote config.json first
  std::shared_ptr<void> temporary_;  ///< removes the directory of a process that is not the first one
  FileLock lock_, turn_;
};

/// Throws Error unless the directory has a trained model. For the directory of a comparison the message names its runs.
/// `flag` is the flag that names the directory, and stands before it in the message; empty: there is none.
void require_trained(const std::filesystem::path& directory, const std::string& flag = "--model ");

/// Throws Error if `file` would replace a file that a run keeps in its directory, such as result.json, by the output of
/// a command. `flag` is the flag that names the file.
void require_no_file_of_run(const char* flag, const std::filesystem::path& file);

/// A text as a file name: letters, digits, "._+=" and characters that are not ASCII stay, each run of other characters
/// becomes one '-'. A long name is cut, and a hash of the whole text is appended. `window(use=additive, segment=5)`
/// becomes `window-use=additive-segment=5`.
std::string file_name_for(const std::string& label);

}  // namespace fovea
