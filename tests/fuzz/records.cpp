// Tables, JSON lines, CoNLL files and lines, compressed or not. The first byte chooses the format and what is asked
// for.
#include "experiments/support/data/records.h"

#include <cstddef>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

using namespace fovea;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const int file = ::memfd_create("records", 0);
  if (::ftruncate(file, 0) != 0 || ::pwrite(file, data + 1, size - 1, 0) < 0) std::abort();
  constexpr RecordFormat formats[] = {RecordFormat::lines, RecordFormat::tsv, RecordFormat::csv, RecordFormat::jsonl,
                                      RecordFormat::conll};
  const unsigned choice = data[0];
  RecordFields fields;
  if (choice / 5 % 2)
    fields.names = choice / 10 % 2 ? std::vector<std::string>{"text", "label"} : std::vector<std::string>{"2", "1"};
  accept_or_explain([&] {
    RecordReader reader(
        "/proc/self/fd/" + std::to_string(file), formats[choice % 5],
        {{.what = "TEXT", .names = {"text"}}, {.what = "LABEL", .names = {"label"}, .takes_numbers = true}}, fields);
    if (choice / 20 % 2) reader.read_quotes();
    std::vector<std::string> values;
    while (reader.next(values)) continue;
  });
  return 0;
}
