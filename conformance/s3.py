"""A small client of S3 on the standard library: what the scripts about versions need, signed by Signature Version 4."""

import datetime
import hashlib
import hmac
import http.client
import threading
import urllib.parse
import xml.etree.ElementTree as ET

_UNRESERVED = "-._~"


def _hmac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


class S3:
    """One server, by path: `S3("http://127.0.0.1:9000", "key", "secret")`. Safe to use from several threads."""

    def __init__(self, endpoint, key, secret, region="us-east-1"):
        self.host = urllib.parse.urlparse(endpoint).netloc
        self.key, self.secret, self.region = key, secret, region
        self._local = threading.local()

    def request(self, method, bucket, key="", query=None, body=b"", headers=None):
        """Status, headers and body of one request; a dropped connection is tried a second time."""
        path = "/" + bucket + ("/" + urllib.parse.quote(key, safe="/" + _UNRESERVED) if key else "")
        pairs = sorted((query or {}).items())
        text = "&".join(
            f"{urllib.parse.quote(k, safe=_UNRESERVED)}={urllib.parse.quote(v, safe=_UNRESERVED)}" for k, v in pairs
        )
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        digest = hashlib.sha256(body).hexdigest()
        signed = {"host": self.host, "x-amz-content-sha256": digest, "x-amz-date": now}
        signed.update({k.lower(): v for k, v in (headers or {}).items()})
        names = ";".join(sorted(signed))
        canonical = "\n".join(
            [method, path, text, *(f"{k}:{signed[k]}" for k in sorted(signed)), "", names, digest]
        )
        scope = f"{now[:8]}/{self.region}/s3/aws4_request"
        to_sign = "\n".join(["AWS4-HMAC-SHA256", now, scope, hashlib.sha256(canonical.encode()).hexdigest()])
        secret = ("AWS4" + self.secret).encode()
        for part in (now[:8], self.region, "s3", "aws4_request"):
            secret = _hmac(secret, part)
        signature = hmac.new(secret, to_sign.encode(), hashlib.sha256).hexdigest()
        sent = {k: v for k, v in signed.items() if k != "host"}
        sent["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={self.key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        for attempt in range(2):
            if getattr(self._local, "connection", None) is None:
                self._local.connection = http.client.HTTPConnection(self.host, timeout=60)
            try:
                self._local.connection.request(method, path + ("?" + text if text else ""), body, sent)
                answer = self._local.connection.getresponse()
                return answer.status, dict(answer.getheaders()), answer.read()
            except (http.client.HTTPException, OSError):
                self._local.connection = None
                if attempt:
                    raise

    def ok(self, *args, **kwargs):
        status, headers, body = self.request(*args, **kwargs)
        assert status < 300, f"{args[:3]}: {status} {body[:300]!r}"
        return headers, body

    def put(self, bucket, key, body, headers=None):
        """Puts an object; its version and ETag."""
        got, _ = self.ok("PUT", bucket, key, body=body, headers=headers)
        got = {k.lower(): v for k, v in got.items()}
        return got.get("x-amz-version-id", "null"), got["etag"].strip('"')

    def delete(self, bucket, key):
        self.ok("DELETE", bucket, key)

    def put_parts(self, bucket, key, parts):
        """Puts an object in parts."""
        _, body = self.ok("POST", bucket, key, {"uploads": ""})
        upload = next(e.text for e in ET.fromstring(body).iter() if e.tag.endswith("UploadId"))
        done = ""
        for i, part in enumerate(parts, 1):
            got, _ = self.ok("PUT", bucket, key, {"partNumber": str(i), "uploadId": upload}, part)
            etag = {k.lower(): v for k, v in got.items()}["etag"]
            done += f"<Part><PartNumber>{i}</PartNumber><ETag>{etag}</ETag></Part>"
        done = f"<CompleteMultipartUpload>{done}</CompleteMultipartUpload>"
        self.ok("POST", bucket, key, {"uploadId": upload}, done.encode())

    def versions(self, bucket, prefix):
        """Every version and delete marker, as dictionaries, in the server's order."""
        query = {"versions": "", "prefix": prefix, "encoding-type": "url"}
        while True:
            _, body = self.ok("GET", bucket, query=query)
            root = ET.fromstring(body)
            name = lambda e: e.tag.rsplit("}", 1)[-1]
            top = {name(e): e.text or "" for e in root if len(e) == 0}
            decode = urllib.parse.unquote_plus if top.get("EncodingType") == "url" else str
            for e in root:
                if name(e) in ("Version", "DeleteMarker"):
                    fields = {name(f): f.text or "" for f in e}
                    fields["Key"] = decode(fields["Key"])
                    fields["Deleted"] = name(e) == "DeleteMarker"
                    yield fields
            if top.get("IsTruncated") != "true":
                return
            query["key-marker"] = decode(top["NextKeyMarker"])
            query["version-id-marker"] = top.get("NextVersionIdMarker", "")
