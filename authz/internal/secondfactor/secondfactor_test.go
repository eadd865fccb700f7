package secondfactor

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// rfcSecret is the secret of the test vectors of RFC 4226 appendix D and RFC 6238 appendix B.
var rfcSecret = []byte("12345678901234567890")

// TestVectors has the codes of RFC 6238 appendix B for SHA-1, of which we use the last six digits,
// and those of RFC 4226 appendix D.
func TestVectors(t *testing.T) {
	for unix, want := range map[int64]string{
		59: "94287082", 1111111109: "07081804", 1111111111: "14050471", 1234567890: "89005924", 2000000000: "69279037", 20000000000: "65353130",
	} {
		if got := codeAt(rfcSecret, unix/period); got != want[2:] {
			t.Errorf("at %d: %s, want %s", unix, got, want[2:])
		}
		if step, ok := Accept(rfcSecret, want[2:], time.Unix(unix, 0), 0); !ok || step != unix/period {
			t.Errorf("at %d: step %d, %v", unix, step, ok)
		}
	}
	for count, want := range []string{"755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871", "520489"} {
		if got := codeAt(rfcSecret, int64(count)); got != want {
			t.Errorf("count %d: %s, want %s", count, got, want)
		}
	}
}

// TestWindow: codes of the steps around now are accepted, each once, and none from before the last
// accepted one.
func TestWindow(t *testing.T) {
	now := time.Unix(1111111111, 0)
	current := now.Unix() / period
	for step := current - 3; step <= current+3; step++ {
		code := codeAt(rfcSecret, step)
		got, ok := Accept(rfcSecret, code, now, 0)
		if inside := step >= current-1 && step <= current+1; ok != inside || ok && got != step {
			t.Errorf("the code of step %+d: %v", step-current, ok)
		}
		if _, again := Accept(rfcSecret, code, now, step); again {
			t.Errorf("the code of step %+d is accepted twice", step-current)
		}
		if _, earlier := Accept(rfcSecret, code, now, current+1); earlier {
			t.Errorf("the code of step %+d is accepted after a later one", step-current)
		}
	}
	right := codeAt(rfcSecret, current)
	if _, ok := Accept(rfcSecret, right[:3]+" "+right[3:], now, 0); !ok {
		t.Error("the code as apps show it is refused")
	}
	for _, wrong := range []string{"", right[:5], right + "0", "0" + right, "-" + right[1:], "１２３４５６", strings.Repeat(" ", 6)} {
		if _, ok := Accept(rfcSecret, wrong, now, 0); ok {
			t.Errorf("%q is accepted", wrong)
		}
	}
	if _, ok := Accept(nil, codeAt(nil, current), now, 0); ok {
		t.Error("a code is accepted without a secret")
	}
}

func TestURI(t *testing.T) {
	address := URI("Notes: & Co", "ada:ada@example.com", rfcSecret)
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "otpauth" || u.Host != "totp" || u.Path != "/Notes & Co:adaada@example.com" {
		t.Fatalf("%s: %v, %q", address, err, u.Path)
	}
	for name, want := range map[string]string{
		"secret": "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ", "issuer": "Notes & Co", "algorithm": "SHA1", "digits": "6", "period": "30",
	} {
		if got := u.Query()[name]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := Text(rfcSecret); got != "GEZD GNBV GY3T QOJQ GEZD GNBV GY3T QOJQ" {
		t.Errorf("text %q", got)
	}
}

func TestRecoveryCodes(t *testing.T) {
	codes, err := NewRecoveryCodes(rand.Reader)
	if err != nil || len(codes) != RecoveryCodes {
		t.Fatal(codes, err)
	}
	seen := map[string]bool{}
	for _, code := range codes {
		canonical := CanonicalRecovery(code)
		if len(canonical) != 16 || len(code) != 19 || seen[canonical] {
			t.Errorf("%q is %q", code, canonical)
		}
		seen[canonical] = true
		for _, typed := range []string{strings.ToUpper(code), canonical, " " + strings.ReplaceAll(code, "-", " - ") + " "} {
			if CanonicalRecovery(typed) != canonical {
				t.Errorf("%q is another code than %q", typed, code)
			}
		}
	}
	if got := CanonicalRecovery("OILo-0000-0000-0000"); got != "0110000000000000" {
		t.Errorf("mistaken characters give %q", got)
	}
	for _, wrong := range []string{"", "123456", "000000000000000", "00000000000000000", "u000000000000000", "é00000000000000", strings.Repeat("0", 5000)} {
		if got := CanonicalRecovery(wrong); got != "" {
			t.Errorf("%.30q is the code %q", wrong, got)
		}
	}
}

func TestRandomnessThatFails(t *testing.T) {
	broken := errors.New("broken")
	if _, err := NewSecret(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	if _, err := NewRecoveryCodes(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Error(err)
	}
	secret, err := NewSecret(bytes.NewReader(rfcSecret))
	if err != nil || !bytes.Equal(secret, rfcSecret) {
		t.Error(secret, err)
	}
}

func TestDraw(t *testing.T) {
	p, err := Draw(URI("Notes", "ada", rfcSecret))
	if err != nil || p.Size < 21+2*margin || p.Size > 100 {
		t.Fatal(p.Size, err)
	}
	if strings.Trim(p.Path, "Mhvz-0123456789 ") != "" || !strings.HasPrefix(p.Path, "M4 4h1v1h-1z") {
		t.Errorf("path %.60q: the first square is the corner of a finder", p.Path)
	}
	if _, err := Draw(strings.Repeat("x", 5000)); err == nil {
		t.Error("a text that is too long is drawn")
	}
}
