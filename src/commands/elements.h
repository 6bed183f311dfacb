#pragma once
// Elements of variables in a form that can be compared between sources and shown. Thread-safe.

#include <string>
#include <vector>

#include "base/buffer.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::commands {

/// The elements of a chunk.
struct Elements {
  Buffer bytes;              // little-endian
  std::vector<Bytes> items;  // of variable length: these parts of `bytes`
};

/// Whether elements of this variable have the same bytes wherever they are equal. Not those that are encoded as a whole
/// chunk at a time (JSON, pickles).
bool has_comparable_elements(const Variable& variable);

/// Converts a decoded chunk. EIO if it does not have `count` items.
Result<Elements> elements_of_chunk(const Variable& variable, Buffer chunk, uint64_t count);

/// One element of fill, as elements_of_chunk() makes it.
std::vector<std::byte> fill_element(const Variable& variable);

/// Whether elements are texts, of a fixed length or of any.
bool has_texts(const Variable& variable);
/// Texts of a fixed length in the form of those of variable length: UTF-8, without the zeros behind them.
Result<Elements> as_texts(const Variable& variable, Elements elements);
/// For people: a text of as_texts(), in quotes. Long ones are cut. Printable.
std::string text_for_people(Bytes text);

/// For people: "1.5", "[1, 2]", "{a: 1, b: \"x\"}", "0x00ff". Long ones are cut. Printable.
std::string element_text(const Variable& variable, Bytes element);

}  // namespace codecfs::commands
