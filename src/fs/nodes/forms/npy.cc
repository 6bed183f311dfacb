// Each variable is a file of numpy's format, NAME.npy.

#include "fs/nodes/view.h"
#include "model/npy_header.h"

namespace codecfs::fs::forms {
namespace {

constexpr ArrayForm kNpyFile{
    .suffix = ".npy", .root_file = {"array.npy", FileKind::array}, .header = [](const Variable& variable) {
      return npy_header(variable.type, variable.grid.shape());
    }};

}  // namespace

extern const ViewForm npy;
constinit const ViewForm npy{.name = "npy", .array = &kNpyFile};

}  // namespace codecfs::fs::forms
