/// The directory of a run's files.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

class Cli;

/// The options that may change when a run continues: with more updates a finished run is extended, and a run may
/// continue on another device or with other memory.
inline const std::vector<std::string> changeable_options{"updates",          "patience", "evaluate-every",
                                                         "checkpoint-every", "device",   "recompute"};

/// A directory that belongs to one run, and to one process at a time (it is locked until the object goes).
///
///   checkpoint.safetensors   where --resume continues
///   best.safetensors         the best model on the development set
///   report.html              tables and pictures
///
/// training/record.h lists the other files.
class RunDirectory {
 public:
  struct Options {
    std::filesystem::path out;     ///< --out: a new or empty directory; empty: runs/PROGRAM-DATE-N
    std::filesystem::path resume;  ///< --resume: the directory of a run to continue
    void add_to(Cli& cli);
  };

  /// Opens the directory of a program's run: a new one, with config.json in it, or the one to resume. Throws Error if
  /// the config.json of that differs from `configuration`, apart from changeable_options.
  static RunDirectory open(const std::string& program, const Options& options, const Json& configuration);

  /// Creates the directory `out`; if `out` is empty, runs/PROGRAM-DATE-N with the first free N = 1, 2, ... Throws Error
  /// if the directory has files in it or cannot be created.
  static RunDirectory create(const std::string& program, const std::filesystem::path& out);

  /// Opens the directory of an existing run. Throws Error if there is none, or if another process has opened it.
  static RunDirectory resume(const std::filesystem::path& path);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory();

  /// Opens or creates a directory inside this one for one run of a comparison. Its name is file_name_for(label).
  RunDirectory part(const std::string& label) const;

  /// Removes all files of the directory, and the directory itself if this object created it.
  void discard() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name) const { return path_ / name; }
  std::filesystem::path configuration() const { return file("config.json"); }
  std::filesystem::path log() const { return file("log.jsonl"); }
  std::filesystem::path checkpoint() const { return file("checkpoint.safetensors"); }
  std::filesystem::path best() const { return file("best.safetensors"); }
  std::filesystem::path report() const { return file("report.html"); }

 private:
  explicit RunDirectory(std::filesystem::path path, bool made = false);

  std::filesystem::path path_;
  bool made_ = false;  ///< whether this object created the directory
  int lock_ = -1;
};

/// Throws Error unless the directory has a trained model. For the directory of a comparison the message names its runs.
/// `flag` is the flag that names the directory, and stands before it in the message; empty: there is none.
void require_trained(const std::filesystem::path& directory, const std::string& flag = "--model ");

/// A text as a file name: letters, digits, "._+=" and characters that are not ASCII stay, each run of other characters
/// becomes one '-'. A long name is cut, and a hash of the whole text is appended. `window(use=additive, segment=5)`
/// becomes `window-use=additive-segment=5`.
std::string file_name_for(const std::string& label);

}  // namespace fovea
