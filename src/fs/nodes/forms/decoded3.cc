// Chunks as raw bytes, with the metadata files of Zarr v3.

#include "fs/nodes/view.h"

namespace codecfs::fs::forms {

extern const ViewForm decoded3;
constinit const ViewForm decoded3{.name = "decoded3", .metadata = &kZarr3Format};

}  // namespace codecfs::fs::forms
