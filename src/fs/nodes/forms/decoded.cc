// Chunks as raw bytes, with the metadata files of Zarr v2.

#include "fs/nodes/view.h"

namespace codecfs::fs::forms {

extern const ViewForm decoded;
constinit const ViewForm decoded{.name = "decoded", .metadata = &kZarr2Format};

}  // namespace codecfs::fs::forms
