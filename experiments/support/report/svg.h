/// The papers' pictures as SVG: curves, scatter plots, and heat maps of attention.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fovea {

struct Axis {
  std::string label{};
  /// For a horizontal axis whose values are positions in a text: the token at position 0, 1, 2, ... They are written
  /// vertically below the axis instead of numbers. Empty: numbers.
  std::vector<std::string> tokens{};
  /// Bounds of what the axis measures, which a range from the data does not pass; bands are cut there.
  std::optional<double> least{}, most{};
};

/// One curve or cloud of points. NaN breaks a curve.
struct Series {
  std::string name{};
  std::vector<double> x{}, y{};
  std::vector<double> deviation{};  ///< of y, drawn as a band; empty: none
  bool dashed = false;              ///< for a reference, such as a paper's number or a baseline
};

struct LineChart {
  std::string title{};
  Axis x{}, y{};
  std::vector<Series> series{};
  bool points = false;  ///< a scatter plot: the points alone
};

/// Maps of numbers for queries and keys, such as the weights, a window or a bias of each head, side by side on one
/// colour scale. Values from 0 up go from the background's colour to blue; negative values are red. The cells of a
/// single map are larger.
struct HeadMaps {
  struct Head {
    std::string name{};
    std::vector<double> values{};               ///< [I, J] row-major; NaN and infinities are grey
    std::vector<double> center{}, width{};      ///< [I], in keys: drawn as a dot with a bar of this width; empty: none
    std::vector<std::pair<int, int>> marked{};  ///< outlined cells (i, j), such as gold alignments
  };
  std::string title{};
  std::vector<std::string> queries{}, keys{};  ///< rows and columns
  std::vector<Head> heads{};
  std::optional<double> low{}, high{};  ///< ends of the colour scale; empty: 0 (or -high), and the largest magnitude
};

/// An <svg> element for a page that has chart_style().
std::string svg(const LineChart& chart);
std::string svg(const HeadMaps& maps);

/// A drawing. In Markdown it is a link to its file, if it has one.
struct Figure {
  std::string svg, file = {};

  Figure(std::string element, std::string of_file = "") : svg(std::move(element)), file(std::move(of_file)) {}
  Figure(const LineChart& chart) : svg(fovea::svg(chart)) {}
  Figure(const HeadMaps& maps) : svg(fovea::svg(maps)) {}
};

/// Pixels.
constexpr double font_size = 12;

/// An estimate of the width of a text, without knowledge of the font.
double text_pixels(const std::string& text, double size = font_size);

/// Several <svg> elements as one, below each other.
std::string stacked(const std::vector<std::string>& svgs);
/// An <svg> element as the text of a file of its own, for papers and programs other than browsers: with the styles
/// inside, on white.
std::string file_of(const std::string& svg);

/// The style of charts on a page.
std::string_view chart_style();

/// Maps [low, high] to [first_pixel, last_pixel].
class AxisScale {
 public:
  enum class Ends { at_ticks, at_data };

  /// The range is that of all values that can_show(), within the bounds of the axis. A range of one number is widened.
  AxisScale(const Axis& axis, const std::vector<double>& values, Ends ends, double first_pixel, double last_pixel);

  /// Moves the ends to other pixels.
  void place(double first_pixel, double last_pixel) { first_pixel_ = first_pixel, last_pixel_ = last_pixel; }
  static bool can_show(double value);  ///< whether it is finite
  double pixel(double value) const;

  /// Ticks inside the range, 1, 2 or 5 times a power of ten apart.
  std::vector<double> ticks() const;
  std::string label(double tick) const;

  double low() const { return low_; }
  double high() const { return high_; }

 private:
  double low_, high_, step_ = 1, first_pixel_, last_pixel_;
};

}  // namespace fovea
