#pragma once
// Requests to Azure Storage that are signed with the key of an account ("Shared Key", version 2015-02-21 and later).
// Source: Azure Storage REST API, "Authorize with Shared Key". Thread-safe.

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "remote/http_client.h"

namespace codecfs::remote {

/// Adds the headers x-ms-date and Authorization. `key`: decoded. `query`: of `request.url`, names and values as they
/// are, each name once. All headers and the length of the body must be final.
void sign_for_azure(HttpRequest& request, const std::string& account, std::string_view key,
                    const std::vector<std::pair<std::string, std::string>>& query,
                    std::chrono::system_clock::time_point now);

/// "Fri, 26 Jun 2015 23:39:12 GMT"
std::string http_date(std::chrono::system_clock::time_point time);

}  // namespace codecfs::remote
