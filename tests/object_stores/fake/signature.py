"""AWS Signature Version 4 in the Authorization header, checked as the AWS documentation describes it ("Authenticating Requests:
Using the Authorization Header"). Written from that text and from no SDK, so that a client's own code is compared with it.
"""
import calendar
import hashlib
import hmac
import re
import time
import urllib.parse

from .errors import S3Error

ALGORITHM = "AWS4-HMAC-SHA256"
SKEW_SECONDS = 15 * 60
UNSIGNED = "UNSIGNED-PAYLOAD"
FORM = re.compile(r"AWS4-HMAC-SHA256 +Credential=([^ ,]+), *SignedHeaders=([^ ,]+), *Signature=([0-9a-f]+)\Z")


class Claim:
    """What an Authorization header says of itself; nothing of it is checked yet."""

    def __init__(self, header):
        found = FORM.match(header)
        scope = found[1].rsplit("/", 4) if found else []
        if len(scope) != 5:
            raise malformed("the header has no Credential=KEY/DATE/REGION/SERVICE/aws4_request, SignedHeaders= and Signature=")
        self.access_key, self.date, self.region, self.service, self.terminator = scope
        self.signed_headers = found[2].split(";")
        self.signature = found[3]


def malformed(why, **elements):
    return S3Error(400, "AuthorizationHeaderMalformed", f"The authorization header is malformed; {why}", **elements)


def encode(text, keep=""):
    """UriEncode() of the documentation: only A-Z a-z 0-9 - . _ ~ stay."""
    return urllib.parse.quote(text, safe="-._~" + keep, errors="surrogateescape")


def canonical_query(pairs):
    return "&".join("=".join(pair) for pair in sorted((encode(name), encode(value)) for name, value in pairs))


def canonical_request(request, claim, payload):
    lines = [request.method, encode(request.path, "/") or "/",
             canonical_query(request.query)]
    for name in claim.signed_headers:
        values = [re.sub(" +", " ", value.strip()) for key, value in request.headers if key.lower() == name]
        lines.append(f"{name}:{','.join(values)}")
    return "\n".join(lines + ["", ";".join(claim.signed_headers), payload])


def signing_key(secret, date, region, service):
    key = ("AWS4" + secret).encode()
    for text in (date, region, service, "aws4_request"):
        key = hmac.new(key, text.encode(), hashlib.sha256).digest()
    return key


def time_of(request):
    """(x-amz-date as sent, seconds)."""
    text = request.header("x-amz-date")
    if text is None:
        raise S3Error(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header")
    try:
        return text, calendar.timegm(time.strptime(text, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        raise S3Error(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header") from None


def payload_of(request, service):
    """The payload's line of the canonical request, and that it is true."""
    actual = hashlib.sha256(request.body).hexdigest()
    said = request.header("x-amz-content-sha256")
    if said is None:
        if service == "s3":
            raise S3Error(400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
        return actual
    if said.startswith("STREAMING-"):
        raise S3Error(501, "NotImplemented", f"x-amz-content-sha256: {said} is not supported by this server")
    if said != UNSIGNED and said != actual:
        raise S3Error(400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match what was computed.",
                      ClientComputedContentSHA256=said, S3ComputedContentSHA256=actual)
    return said


def check_token(request, credential, now):
    token = request.header("x-amz-security-token")
    if credential.token is None and token is None:
        return
    if token is None:
        raise unknown_key(credential.access_key)  # as AWS answers a temporary key without its token
    if token != credential.token:
        raise S3Error(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
    if credential.expires is not None and now >= credential.expires:
        raise S3Error(400, "ExpiredToken", "The provided token has expired.", **{"Token-0": token})


def unknown_key(access_key):
    return S3Error(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", AWSAccessKeyId=access_key)


def check(request, claim, credentials, now, service="s3"):
    """Raises S3Error unless the request is signed right. The region is the caller's to check. credentials: find(access key)."""
    stamp, seconds = time_of(request)
    if claim.terminator != "aws4_request" or claim.service != service:
        raise malformed(f'incorrect service "{claim.service}". This endpoint belongs to "{service}".')
    if claim.date != stamp[:8]:
        raise malformed(f'Invalid credential date "{claim.date}". This date is not the same as X-Amz-Date: "{stamp[:8]}".')
    if abs(seconds - now) > SKEW_SECONDS:
        raise S3Error(403, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.",
                      RequestTime=stamp, ServerTime=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
                      MaxAllowedSkewMilliseconds=SKEW_SECONDS * 1000)
    credential = credentials.find(claim.access_key)
    if credential is None:
        raise unknown_key(claim.access_key)
    check_token(request, credential, now)
    unsigned = sorted({name.lower() for name, _ in request.headers if name.lower() == "host" or name.lower().startswith("x-amz-")}
                      - set(claim.signed_headers))
    if unsigned or claim.signed_headers != sorted(claim.signed_headers):
        raise S3Error(403, "AccessDenied", "There were headers present in the request which were not signed", HeadersNotSigned=", ".join(unsigned))
    canonical = canonical_request(request, claim, payload_of(request, service))
    scope = f"{claim.date}/{claim.region}/{claim.service}/aws4_request"
    to_sign = "\n".join([ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()])
    expected = hmac.new(signing_key(credential.secret, claim.date, claim.region, claim.service), to_sign.encode(), hashlib.sha256).hexdigest()
    if not hmac.compare_digest(expected, claim.signature):
        raise S3Error(403, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided. "
                      "Check your key and signing method.", AWSAccessKeyId=claim.access_key, StringToSign=to_sign,
                      SignatureProvided=claim.signature, CanonicalRequest=canonical)
