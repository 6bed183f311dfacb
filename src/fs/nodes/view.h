#pragma once
// The forms in which the dataset is shown. What makes a view another one is in one file, forms/NAME.cc, and its name in
// views.inc: which files a directory has, how they are named, and what is in them. All other code asks the form.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "backends/api/source.h"
#include "base/result.h"
#include "fs/nodes/metadata_format.h"
#include "model/variable.h"

namespace codecfs::fs {

enum class View : uint8_t {
#define VIEW(name) name,
#include "fs/nodes/views.inc"
#undef VIEW
};
inline constexpr size_t kViews = 0
#define VIEW(name) +1
#include "fs/nodes/views.inc"
#undef VIEW
    ;

/// The file of a variable that is shown as one: what `header` makes of it, and all elements behind that in C order.
struct ArrayForm {
  std::string_view suffix;  // of the variable's name
  NamedFile root_file;      // the file if the root is a variable, which has no name
  /// EOPNOTSUPP for a type that the form does not have.
  Result<std::string> (*header)(const Variable& variable);
};

struct ViewForm {
  std::string_view name;                     // for users
  const MetadataFormat* metadata = nullptr;  // a variable is a directory of chunk files, with these files beside them
  bool is_encoded = false;                   // chunk files have the bytes as stored, and the metadata their codecs
  const ArrayForm* array = nullptr;          // a variable is one file; there are no metadata files

  /// The format of codecs in texts about variables: Zarr v2 where there are no metadata files.
  [[nodiscard]] const MetadataFormat& format() const { return metadata != nullptr ? *metadata : kZarr2Format; }
  /// Whether the chunk files are the shards of the variable, as they are stored.
  [[nodiscard]] bool shows_shards(const Variable& variable) const {
    return is_encoded && metadata->has_shards && variable.shards.has_value();
  }
};

const ViewForm& form_of(View view);
/// "decoded", "encoded", ...: the name for users.
inline std::string_view name_of(View view) { return form_of(view).name; }
std::optional<View> view_named(std::string_view name);
/// All names: "decoded, encoded, ... and raw".
std::string view_names();
/// The view that a mount of this source shows if the user does not choose one: its own format, decoded.
View default_view(const Source& source);
/// The view with the other format of metadata, and encoded or decoded as this one.
View counterpart_of(View view);

}  // namespace codecfs::fs
