/// Drawing of charts: the pieces of an <svg> element.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace fovea {

// Pixels. Two charts stand beside each other on a page.
constexpr double chart_width = 500, page_width = 1092;
constexpr double title_height = 26, axis_label_height = 20;
constexpr double font_size = 12;

/// A length for SVG, rounded to a tenth of a pixel, without a decimal for whole numbers.
std::string px(double value);

/// An estimate of the width of a text, without knowledge of the font.
double text_pixels(const std::string& text, double size = font_size);

/// The width of the longest of the tokens, each cut to `longest` characters, in pixels.
double longest_label(const std::vector<std::string>& tokens, std::size_t longest, double size);

/// The body of an <svg> element, appended to piece by piece.
class Drawing {
 public:
  void line(double x1, double y1, double x2, double y2, const char* style);

  /// Adds a text whose `anchor` (start, middle or end) is at (x, y), turned around that point.
  void text(double x, double y, const std::string& text, const char* style, const char* anchor = "start",
            double degrees = 0);

  void raw(const std::string& elements) { body_ += elements; }

  std::string element(double width, double height, const std::string& description) const;

 private:
  std::string body_;
};

}  // namespace fovea
