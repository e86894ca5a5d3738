#include "experiments/support/data/reviews.h"

#include <algorithm>

#include "experiments/support/text/number.h"
#include "experiments/support/text/words.h"
#include "tensor/error.h"

namespace fovea {

namespace fs = std::filesystem;

namespace {

const std::vector<std::string> review_classes = {"negative", "positive"};

/// Bytes of the `<br>`, `<br/>` or `<br />` that starts the text, or 0.
std::size_t line_break_length(std::string_view text) {
  if (!text.starts_with('<') || lower_case(text.substr(0, 3)) != "<br") return 0;
  const std::size_t end = text.find_first_not_of(" /", 3);
  return end != std::string_view::npos && text[end] == '>' ? end + 1 : 0;
}

/// One space for every `<br />`, however it is written, and between words.
std::string without_line_breaks(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = line_break_length(text.substr(i, 8));
    result += length > 0 ? ' ' : text[i];
    i += std::max<std::size_t>(length, 1);
  }
  return join_words(split_words(result));
}

/// {pos,neg}/*.txt, ordered by the number that starts the name ("12_8.txt"), which no file system changes.
std::vector<Example> read_review_directory(const fs::path& directory) {
  std::vector<Example> examples;
  for (const int label : {0, 1}) {
    const fs::path folder = directory / (label == 0 ? "neg" : "pos");
    require(fs::is_directory(folder), "{}: no such directory; expected {{train,test}}/{{pos,neg}}/*.txt",
            folder.string());
    std::vector<std::pair<std::int64_t, fs::path>> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      const fs::path name = entry.path().filename();
      const bool text = name.extension() == ".txt" || (name.extension() == ".gz" && name.stem().extension() == ".txt");
      if (text) names.emplace_back(leading_number<std::int64_t>(name.string()).value_or(0), entry.path());
    }
    require(!names.empty(), "{}: no .txt file; it has {}", folder.string(), contents_of(folder));
    std::sort(names.begin(), names.end());
    for (const auto& [number, path] : names) {
      std::string text = without_line_breaks(read_text(path, " "));
      require(!text.empty(), "{}: the review is empty", path.string());
      examples.push_back({.text = std::move(text), .label = label});
    }
  }
  return examples;
}

/// A table with the columns label (0, 1), text and perhaps subset; reviews of subset val go to `dev` where that is
/// given.
std::vector<Example> read_packed_reviews(const TextFile& file, std::vector<Example>* dev) {
  const std::size_t first = file.first_line();
  const auto header = split_columns(file.lines[first]);
  const auto position = [&](std::string_view name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  const std::size_t label = position("label"), text = position("text"), subset = position("subset");
  if (label == header.size() || text == header.size()) {
    file.fail_at(first, "columns {}, expected a header with at least label and text", file.lines[first].substr(0, 80));
  }
  if (const std::string repeated = repeated_name({header.begin(), header.end()}); !repeated.empty())
    file.fail_at(first, "{}", repeated);
  std::vector<Example> examples;
  for (std::size_t i = first + 1; i < file.lines.size(); ++i) {
    if (is_blank(file.lines[i])) continue;
    const auto row = split_columns(file.lines[i]);
    if (row.size() != header.size()) file.fail_at(i, "{}, expected {}", counted(row.size(), "column"), header.size());
    if (row[label] != "0" && row[label] != "1") file.fail_at(i, "label '{}', expected 0 or 1", row[label]);
    Example example{.text = without_line_breaks(row[text]), .label = row[label] == "1" ? 1 : 0};
    if (example.text.empty()) file.fail_at(i, "the review is empty");
    const bool development = dev != nullptr && subset < header.size() && (row[subset] == "val" || row[subset] == "dev");
    (development ? *dev : examples).push_back(std::move(example));
  }
  return examples;
}

}  // namespace

bool is_review_tree(const fs::path& directory) {
  return fs::is_directory(directory / "train" / "pos") && fs::is_directory(directory / "train" / "neg");
}

ClassificationData load_review_tree(const fs::path& directory) {
  ClassificationData data;
  data.classes = review_classes;
  data.source = fmt::format("{}/{{train,test}}/{{pos,neg}}: IMDB", directory.string());
  data.train = read_review_directory(directory / "train");
  for (const char* name : {"val", "dev"}) {
    if (data.dev.empty() && fs::is_directory(directory / name)) data.dev = read_review_directory(directory / name);
  }
  if (fs::is_directory(directory / "test")) data.test = read_review_directory(directory / "test");
  return data;
}

ClassificationData load_packed_reviews(const SplitFiles& files, const TextFile& train) {
  ClassificationData data;
  data.classes = review_classes;
  data.source = fmt::format("{}: IMDB", named(files));
  data.train = read_packed_reviews(train, files.dev.empty() ? &data.dev : nullptr);
  if (!data.dev.empty()) data.source += " (dev: subset val)";
  if (!files.dev.empty()) data.dev = read_packed_reviews(read_lines(files.dev), nullptr);
  if (!files.test.empty()) data.test = read_packed_reviews(read_lines(files.test), nullptr);
  return data;
}

}  // namespace fovea
