/// What programs that train models share where several are compared: rows, which differ in their flags, and seeds.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/support/program/cli.h"
#include "experiments/support/program/run_directory.h"
#include "experiments/support/training/training.h"

namespace fovea {

/// --compare "global; gaussian; both: --encoder-attention gaussian --decoder-attention relative". Rows are separated by
/// ';'. A row is what the command line may have, after a name and ':' if it has one; or, without flags, the value of
/// the program's main flag.
class Comparison {
 public:
  struct Row {
    std::string title;
    std::vector<std::string> arguments;  ///< as on a command line
  };

  /// A row without flags is a value of `main_flag`.
  explicit Comparison(std::string main_flag) : main_flag_(std::move(main_flag)) {}
  /// Declares --compare and --seeds.
  void add_to(Cli& cli);
  /// Declares --compare alone.
  void add_rows_to(Cli& cli);

  /// One row without arguments, called as the main flag's value, where there is no --compare. Throws Error for rows
  /// that are empty or of the same title.
  std::vector<Row> rows(const Cli& cli) const;
  bool is_alone() const { return compare_.empty() && seeds_ == 1; }
  std::int64_t seeds() const { return seeds_; }

  /// Does `check` with the flags of every row; what it throws is put down to the row.
  void check(Cli& cli, const std::function<void()>& check) const;

  /// One training, with the flags of its row and `seed` set to its own.
  struct Training {
    const Row& row;
    std::uint64_t seed;
    TrainingRun run;
  };
  /// Every row with every seed. Each has a run directory in its own right, in `directory`, which `prepare` fills before
  /// the first update; where there is one training alone, the directory itself is its.
  void run(Cli& cli, std::uint64_t& seed, const RunDirectory& directory,
           const std::function<void(const RunDirectory& part)>& prepare,
           const std::function<void(const Training&)>& train) const;

 private:
  std::string main_flag_, compare_;
  std::int64_t seeds_ = 1;
};

}  // namespace fovea
