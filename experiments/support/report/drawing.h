/// What the charts are drawn with: the pieces of an <svg> element.
#pragma once
#include <cstddef>
#include <string>

namespace fovea {

// Pixels. Two charts stand beside each other on a page.
constexpr double chart_width = 500, page_width = 1092;
constexpr double title_height = 26, axis_label_height = 20;
constexpr double font_size = 12;

/// One decimal is a tenth of a pixel; whole numbers get none.
std::string px(double value);

/// An estimate: nobody measures fonts here.
double text_pixels(const std::string& text, double size = font_size);

std::string tooltip(const std::string& text);

/// Up to five significant digits.
std::string short_value(double value);

/// The body of an <svg> element, appended to piece by piece.
class Drawing {
 public:
  void line(double x1, double y1, double x2, double y2, const char* style);

  /// `anchor`: start, middle or end of the text lies at (x, y); it is turned around that point.
  void text(double x, double y, const std::string& text, const char* style, const char* anchor = "start",
            double degrees = 0);

  void raw(const std::string& elements) { body_ += elements; }

  std::string element(double width, double height, const std::string& description) const;

 private:
  std::string body_;
};

/// A bar from the colour of `high` down to that of `low`, with both as labels; some 44 pixels wide.
void draw_colour_scale(Drawing& drawing, double x, double top, double height, double low, double high);

}  // namespace fovea
