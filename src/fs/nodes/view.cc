#include "fs/nodes/view.h"

#include <fmt/format.h>

#include <array>

namespace codecfs::fs {
namespace forms {

#define VIEW(name) extern const ViewForm name;
#include "fs/nodes/views.inc"
#undef VIEW

}  // namespace forms

namespace {

constexpr std::array<const ViewForm*, kViews> kForms{
#define VIEW(name) &forms::name,
#include "fs/nodes/views.inc"
#undef VIEW
};

template <class Matches>
std::optional<View> first_view(const Matches& matches) {
  for (size_t i = 0; i < kViews; ++i)
    if (matches(*kForms[i])) return static_cast<View>(i);
  return std::nullopt;
}

}  // namespace

const ViewForm& form_of(View view) { return *kForms[static_cast<size_t>(view)]; }

std::optional<View> view_named(std::string_view name) {
  return first_view([&](const ViewForm& form) { return form.name == name; });
}

std::string view_names() {
  std::string names;
  for (size_t i = 0; i < kViews; ++i)
    names += fmt::format("{}{}", i == 0 ? "" : i + 1 == kViews ? " and " : ", ", kForms[i]->name);
  return names;
}

View default_view(const Source& source) {
  const MetadataFormat* const own = source.is_zarr3() ? &kZarr3Format : &kZarr2Format;
  return *first_view([&](const ViewForm& form) { return form.metadata == own && !form.is_encoded; });
}

View counterpart_of(View view) {
  const ViewForm& form = form_of(view);
  return *first_view([&](const ViewForm& other) {
    return other.metadata != nullptr && other.metadata != &form.format() && other.is_encoded == form.is_encoded;
  });
}

}  // namespace codecfs::fs
