#pragma once
// XML as object stores and STS answer it: elements with text. Attributes, comments and processing instructions are
// ignored. Thread-safe.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace codecfs::remote {

struct XmlElement {
  std::string name;  // without the prefix of a namespace
  std::string text;  // directly in this element; empty if it has children and only white space between them
  std::vector<XmlElement> children;

  /// The first child with this name; null if there is none.
  [[nodiscard]] const XmlElement* child(std::string_view child_name) const;
  /// The text of that child; empty if there is none.
  [[nodiscard]] std::string_view child_text(std::string_view child_name) const;
};

/// The root element. EINVAL with the line if the text is malformed, or has a document type (and so could declare
/// entities); EFBIG if it exceeds a limit.
Result<XmlElement> parse_xml(std::string_view text);

inline constexpr size_t kMaxXmlBytes = size_t{16} << 20;
inline constexpr size_t kMaxXmlElements = size_t{1} << 17;
inline constexpr size_t kMaxXmlDepth = 32;

}  // namespace codecfs::remote
