#include "remote/certificates.h"

#include <curl/curl.h>
#include <unistd.h>

#include <array>

namespace codecfs::remote {
namespace {

constexpr std::array kBundles = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine, Gentoo
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // Fedora, RHEL and those made from it
    "/etc/pki/tls/certs/ca-bundle.crt",                   // older ones of these
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/ssl/cert.pem",
};

std::string find_bundle() {
  const curl_version_info_data* const built = curl_version_info(CURLVERSION_NOW);
  if (built->cainfo || built->capath) return {};
  return first_readable(kBundles);
}

}  // namespace

std::string first_readable(std::span<const char* const> paths) {
  for (const char* const path : paths)
    if (access(path, R_OK) == 0) return path;
  return {};
}

const std::string& system_certificates() {
  static const std::string found = find_bundle();
  return found;
}

}  // namespace codecfs::remote
