package settings

import "testing"

// A file is read the same however an editor saves it.
func TestReadDocumentOfOtherEditors(t *testing.T) {
	for name, text := range map[string]string{
		"plain":                 "issuer: https://auth.example.com\n",
		"byte order mark":       "\ufeffissuer: https://auth.example.com\n",
		"line ends of Windows":  "\ufeffissuer: https://auth.example.com\r\n",
		"no line end":           "issuer: https://auth.example.com",
		"with a document start": "\ufeff---\nissuer: https://auth.example.com\n",
	} {
		d, err := ReadDocument("file.yaml", []byte(text), []string{"issuer"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := d.Text(d.Values["issuer"], "issuer"); got != "https://auth.example.com" {
			t.Errorf("%s: issuer is %q", name, got)
		}
	}
	if _, err := ReadDocument("file.yaml", []byte("\ufeff\ufeffissuer: x\n"), []string{"issuer"}); err == nil {
		t.Error("two byte order marks are read")
	}
}
