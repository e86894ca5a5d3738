/// Findings as one HTML file with styles and drawings inside.
#pragma once
#include <string>
#include <string_view>

namespace fovea {

struct Finding;

/// Escapes text for the content of an element or a quoted attribute of HTML or SVG. Control characters become visible.
std::string escape_html(std::string_view text);

/// The page. Sections with a title have a link at the top; the lines of the origin are below the title.
std::string html_of(const Finding& finding);

}  // namespace fovea
