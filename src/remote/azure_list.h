#pragma once
// The list of the blobs of a container as Azure answers it. Source: Azure Storage REST API, "List Blobs". Thread-safe.

#include <string_view>

#include "base/result.h"
#include "remote/object_client.h"

namespace codecfs::remote {

/// EIO if it is no list, or has other blobs than those with the prefix. Directories of an account with hierarchical
/// namespaces are no objects.
Result<ObjectList> parse_azure_list(std::string_view xml, std::string_view prefix);

}  // namespace codecfs::remote
