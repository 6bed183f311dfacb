#pragma once
// `codecfs compare`: whether two datasets have the same content, whatever their formats, chunks, filters and byte
// orders. Fill values and limits of dimensions are not compared.

#include <cstdint>
#include <string>
#include <vector>

#include "backends/api/source.h"
#include "base/result.h"
#include "model/json_value.h"

namespace codecfs::commands {

/// form: the same values in another form, [5] and 5. content: anything else.
enum class DifferenceKind { content, form };

struct Difference {
  std::string path;
  std::string text;
  DifferenceKind kind = DifferenceKind::content;
};

struct Comparison {
  static constexpr size_t kMaxListed = 1000;

  uint64_t groups = 0;     // in both
  uint64_t variables = 0;  // in both
  uint64_t bytes = 0;      // decoded bytes that were compared
  uint64_t differences = 0;
  uint64_t differences_of_form = 0;   // of these
  std::vector<Difference> different;  // the first kMaxListed
  std::vector<Difference> unknown;    // what cannot be read
};

/// Compares names, types, shapes, names of dimensions, attributes and elements (bit by bit, in either byte order), on
/// all cores. Chunks that neither dataset stores are not read. ECANCELED.
Result<Comparison> compare(Source& one, Source& other);

/// Lines for a terminal.
std::string comparison_text(const Comparison& found, const std::string& one, const std::string& other);
Json comparison_json(const Comparison& found, const std::string& one, const std::string& other);

}  // namespace codecfs::commands
