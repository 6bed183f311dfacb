#pragma once
// How a variable of a source is shown in an adapted form: its description, and its chunks.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/api/adapted_source.h"
#include "base/buffer.h"
#include "base/result.h"
#include "model/variable.h"

namespace codecfs::adapted {

struct Form {
  VariablePtr stored;  // as the source has it
  VariablePtr shown;   // without attributes and dimension names
  /// The extents of a shown chunk, in elements of the source: without the dimension that strings may add.
  std::vector<uint64_t> chunks;
  uint64_t string_length = 0;  // bytes; 0: the elements stay as they are, or:
  bool is_vlen = false;        // strings of UTF-32 are shown as vlen-utf8
  std::string added = {};      // the name of a dimension that only the form has, its last; empty: none
  bool suits_netcdf = false;   // attributes are as for_netcdf() makes them
  bool is_swapped = false;     // numbers of the other byte order, which netCDF-C 4.9 takes for little-endian
  /// No element of the shown type is the fill of the source, so chunks that are not stored are shown with it, too.
  bool shows_fill = false;

  /// The chunks are those of the source.
  [[nodiscard]] bool is_stored_form() const { return stored == shown; }
};

/// Whether the length of the variable's strings is needed: see longest_string() in string_chunks.h.
bool needs_length(const Variable& stored, const Adaptation& adaptation);

/// `longest`: of its strings, if needs_length(). An error of it becomes that of all chunks.
Result<Form> make_form(VariablePtr stored, const Adaptation& adaptation, const Result<uint64_t>& longest);

/// Why netCDF-C does not read the adapted variable, in words that follow its name; empty if it does.
std::string why_not_netcdf(std::string_view name, const Variable& stored, const Adaptation& adaptation);
/// The attributes as netCDF-C 4.9 reads them: what is neither a text nor numbers becomes its JSON text. Without notes
/// for a conversion back.
std::vector<Attribute> for_netcdf(std::vector<Attribute> attributes);

/// The variable in its form, if it is given with attributes and dimension names.
VariablePtr described(const Form& form, VariablePtr stored);

/// A chunk of the source as a chunk of the form. EIO if it is not one of Form::stored.
Result<Buffer> shown_chunk(const Form& form, Buffer chunk);
/// The chunk of Form::shows_fill.
Result<Buffer> fill_chunk(const Form& form);

}  // namespace codecfs::adapted
