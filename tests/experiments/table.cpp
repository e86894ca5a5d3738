#include "experiments/support/report/table.h"

#include <cmath>
#include <stdexcept>

#include <boost/test/unit_test.hpp>

#include "experiments/support/text/words.h"
#include "tests/files.h"

using namespace fovea;

static Table example() {
  Table table({"attention", "accuracy", "steps/s", "parameters"});
  table.row({"global", Cell::mean(80.308, 0.4213, 2), Cell::number(1, 2), 12345});
  table.row({"heads(global*4, \"日本\")", Cell::mean(8.1, 11.5, 2), Cell::number(0.875, 2), 9});
  table.rule();
  table.row({"paper, <b>", Cell::number(79.36, 2), Cell(), Cell()});
  return table;
}

BOOST_AUTO_TEST_SUITE(table)

BOOST_AUTO_TEST_CASE(text_aligns_numbers_deviations_and_wide_characters) {
  BOOST_TEST(example().text() ==
             "attention                     accuracy  steps/s  parameters\n"
             "───────────────────────────────────────────────────────────\n"
             "global                   80.31 ±  0.42     1.00       12345\n"
             "heads(global*4, \"日本\")   8.10 ± 11.50     0.88           9\n"
             "───────────────────────────────────────────────────────────\n"
             "paper, <b>               79.36                –           –\n");
}

BOOST_AUTO_TEST_CASE(huge_numbers_are_short) {
  Table table({"perplexity"});
  table.row({Cell::number(2.2917e300, 3)});
  BOOST_TEST(contains(table.text(), "2.29e+300\n"));
}

BOOST_AUTO_TEST_CASE(latex_keeps_the_dashes_of_flags) {
  Table table({"model", "score"});
  table.row({"global, --layers 2", Cell()});
  BOOST_TEST(contains(table.latex(), "global, -{}-layers 2 & -- \\\\\n"), table.latex());
}

BOOST_AUTO_TEST_CASE(latex_has_a_column_for_an_empty_heading) {
  BOOST_TEST(contains(Table({"", "score"}).latex(), "\\toprule\n & score \\\\\n"));
}

BOOST_AUTO_TEST_CASE(zero_has_no_sign) {
  Table table({"bias"});
  table.row({Cell::number(-0.0001, 3)}).row({Cell::number(-0.0, 0)}).row({Cell::mean(-0.001, 0.2, 2)});
  BOOST_TEST(table.text() == "        bias\n────────────\n0.000\n    0\n 0.00 ± 0.20\n");
  BOOST_TEST(contains(Table({"bias"}).row({Cell::number(-HUGE_VAL, 2)}).text(), "-inf\n"));
}

BOOST_AUTO_TEST_CASE(markdown_escapes_its_own_signs) {
  BOOST_TEST(example().markdown() ==
             "| attention                |     accuracy | steps/s | parameters |\n"
             "| ------------------------ | -----------: | ------: | ---------: |\n"
             "| global                   | 80.31 ± 0.42 |    1.00 |      12345 |\n"
             "| heads(global\\*4, \"日本\") | 8.10 ± 11.50 |    0.88 |          9 |\n"
             "| paper, \\<b>              |        79.36 |       – |          – |\n");
}

BOOST_AUTO_TEST_CASE(rows_have_full_precision_and_csv_the_columns_of_all_tables) {
  Table other({"attention", "AER", "parameters"});
  other.row({"a\tb", Cell::number(1.0 / 3, 2), 7});
  Json rows = example().json();
  BOOST_TEST(rows[0]["accuracy"].get<double>() == 80.308);
  BOOST_TEST(rows[2]["steps/s"].is_null());
  rows.push_back(other.json()[0]);
  BOOST_TEST(csv_of({rows.begin(), rows.end()}) ==
             "attention,accuracy,accuracy deviation,steps/s,parameters,AER\n"
             "global,80.308,0.4213,1,12345,\n"
             "\"heads(global*4, \"\"日本\"\")\",8.1,11.5,0.875,9,\n"
             "\"paper, <b>\",79.36,,,,\n"
             "a\tb,,,,7,0.3333333333333333\n");
}

BOOST_AUTO_TEST_CASE(html_is_escaped) {
  const std::string html = example().html();
  for (const char* part : {"<td>paper, &lt;b&gt;</td>", "<td class=\"number\">79.36</td>",
                           "<td class=\"number\">8.10 ± 11.50</td>", "<tr class=\"rule\"><td>paper"})
    BOOST_TEST(contains(html, part), part);
}

BOOST_AUTO_TEST_CASE(a_single_run_has_no_deviation_and_nan_is_nothing) {
  Table table({"a", "b"});
  double one[] = {80.0}, three[] = {1.0, 2.0, 3.0};
  table.row({Cell::mean_of(one, 1), Cell::mean_of(three, 1)}).row({Cell::number(std::nan(""), 1), "\n"});
  BOOST_TEST(table.text() ==
             "   a  b\n"
             "───────────────\n"
             "80.0  2.0 ± 1.0\n"
             "   –  ␊\n");
}

// Long texts are folded, a table of few rows is turned, and of another one the last columns are left out and named.
BOOST_AUTO_TEST_CASE(a_table_for_a_terminal_fits_120_columns) {
  for (auto [rows, columns, words] : {std::tuple(3, 1, 30), {2, 25, 1}, {40, 25, 1}, {5, 4, 12}}) {
    std::vector<std::string> headings{"model"};
    for (int c = 0; c < columns; ++c) headings.push_back(fmt::format("column {}", c));
    Table table(headings);
    for (int r = 0; r < rows; ++r) {
      std::vector<Cell> cells{fmt::format("row {}", r)};
      for (int c = 0; c < columns; ++c) {
        std::string text;
        for (int w = 0; w < words; ++w) text += fmt::format("{}w{}.{}.{}", w > 0 ? " " : "", r, c, w);
        cells.push_back(words == 1 ? Cell::number(r + c / 100.0, 2) : Cell(text));
      }
      table.row(cells);
    }
    const std::string text = table.text();
    for (std::string_view line : split_columns(text, '\n')) BOOST_TEST(display_width(line) <= 120u, line);
    BOOST_TEST(contains(text, "Not shown, to fit 120 columns: column ") == (rows == 40));
    for (const std::string& heading : headings) BOOST_TEST(contains(text, heading), heading);
    for (int w = 0; w < words && words > 1; ++w) BOOST_TEST(contains(text, fmt::format("w1.0.{}", w)));
    if (rows == 2) BOOST_TEST(contains(text, "column 24   0.24   1.24\n"), text);
  }
}

BOOST_AUTO_TEST_CASE(headings_are_folded_before_columns_are_left_out) {
  std::vector<std::string> headings{"model"};
  for (int c = 0; c < 7; ++c) headings.push_back(fmt::format("En-De BLEU {}, ours (small_parallel/tok)", c));
  Table table(headings);
  for (int r = 0; r < 30; ++r) {
    std::vector<Cell> cells{"row"};
    for (int c = 0; c < 7; ++c) cells.push_back(Cell::mean(r + c, 0.25, 2));
    table.row(cells);
  }
  const std::string text = table.text();
  for (std::string_view line : split_columns(text, '\n')) BOOST_TEST(display_width(line) <= 120u, line);
  BOOST_TEST(!contains(text, "Not shown"), text);
  BOOST_TEST(contains(text, " 0.00 ± 0.25 "), text);
  for (int c = 0; c < 7; ++c) BOOST_TEST(contains(text, fmt::format("En-De BLEU {},", c)), text);
}

BOOST_AUTO_TEST_CASE(specifications_without_spaces_are_broken_behind_their_signs) {
  Table table({"model", "score"});
  table.row({"window(use=additive,segment=5,layers=1-2)+relative(clip=16)+sinks(learned=true)", "1"});
  for (int c = 0; c < 3; ++c) table.row({"global", std::string(70, 'x')});
  const std::string text = table.text();
  BOOST_TEST(contains(text, "\nwindow(use=additive,segment=5,layers=1-2)+relative("), text);
  BOOST_TEST(contains(text, "\nclip=16)+sinks(learned=true)\n"), text);
}

BOOST_AUTO_TEST_CASE(columns_of_the_highest_rank_are_left_out_first) {
  std::vector<std::string> headings{"model"};
  std::vector<int> ranks{9};  // the first column stays nevertheless
  for (int c = 0; c < 40; ++c) headings.push_back(fmt::format("c{}", c)), ranks.push_back(c % 3);
  Table table(headings, ranks);
  for (int r = 0; r < 40; ++r) {
    std::vector<Cell> cells{"row"};
    for (int c = 0; c < 40; ++c) cells.push_back(Cell::number(r + c / 100.0, 2));
    table.row(cells);
  }
  const std::string text = table.text();
  // of rank 1, of which only some have room, the first
  BOOST_TEST(text.starts_with("model     c0     c1     c3     c4     c6     c9    c12 "), text);
  BOOST_TEST(contains(text, "Not shown, to fit 120 columns: c2, c5, c7, c8, c10, "), text);
}

BOOST_AUTO_TEST_CASE(a_row_of_the_wrong_length_is_a_bug) {
  Table table({"a", "b"});
  BOOST_CHECK_THROW(table.row({1}), std::logic_error);
  BOOST_TEST(table.text() == "a  b\n────\n");
}

BOOST_AUTO_TEST_SUITE_END()
