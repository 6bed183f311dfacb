// Each variable is a file of its bytes alone, NAME, if numpy has its type.

#include "fs/nodes/view.h"
#include "model/npy_header.h"

namespace codecfs::fs::forms {
namespace {

constexpr ArrayForm kRawFile{.suffix = "",
                             .root_file = {"array", FileKind::array},
                             .header = [](const Variable& variable) -> Result<std::string> {
                               CODECFS_TRY(npy_header(variable.type, variable.grid.shape()));
                               return std::string();
                             }};

}  // namespace

extern const ViewForm raw;
constinit const ViewForm raw{.name = "raw", .array = &kRawFile};

}  // namespace codecfs::fs::forms
