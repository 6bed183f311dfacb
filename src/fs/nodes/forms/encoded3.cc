// Chunks, or the shards of a variable, as they are stored, with the metadata files of Zarr v3, which tell their codecs.

#include "fs/nodes/view.h"

namespace codecfs::fs::forms {

extern const ViewForm encoded3;
constinit const ViewForm encoded3{.name = "encoded3", .metadata = &kZarr3Format, .is_encoded = true};

}  // namespace codecfs::fs::forms
