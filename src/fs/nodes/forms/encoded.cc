// Chunks as they are stored, with the metadata files of Zarr v2, which tell their codecs.

#include "fs/nodes/view.h"

namespace codecfs::fs::forms {

extern const ViewForm encoded;
constinit const ViewForm encoded{.name = "encoded", .metadata = &kZarr2Format, .is_encoded = true};

}  // namespace codecfs::fs::forms
