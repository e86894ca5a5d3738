/// Where a run keeps what it makes.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "experiments/support/program/json_file.h"

namespace fovea {

class Cli;

/// The options that may be others when a run continues: with more updates it goes on beyond its end.
inline const std::vector<std::string> options_of_extension{"updates", "patience", "evaluate-every", "checkpoint-every"};

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

  /// What a program calls: a new directory with config.json in it, or the one to resume, after checking that its
  /// config.json agrees with `configuration`.
  static RunDirectory open(const std::string& program, const Options& options, const Json& configuration);

  /// Makes `out`, or `runs/PROGRAM-DATE-N` with the first free N = 1, 2, ... if it is empty.
  /// Throws Error if `out` has anything in it or cannot be made.
  static RunDirectory create(const std::string& program, const std::filesystem::path& out);

  /// Takes an existing run's directory. Throws Error if there is none, or another process is writing it.
  static RunDirectory resume(const std::filesystem::path& path);

  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory();

  /// A run of its own inside this one: one seed of one method, say. `label` may be any text; it is made a file name.
  /// Opens what is there already, so that a resumed comparison finds its parts.
  RunDirectory part(const std::string& label) const;

  /// Removes all that is in the directory, and the directory unless it was there before.
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
  bool made_ = false;  ///< was not there before
  int lock_ = -1;
};

/// Throws Error, about --model, unless a run has left a model in the directory; in that of a comparison the runs are
/// named.
void require_trained(const std::filesystem::path& directory);

/// A text as a file name: letters, digits and "._+=" stay, and so does all that is not ASCII; everything else becomes
/// one '-'.
/// A long one is cut, with a hash of the whole behind.
/// `window(use=additive, segment=5)` becomes `window-use=additive-segment=5`.
std::string file_name_for(const std::string& label);

}  // namespace fovea
