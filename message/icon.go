package message

import (
	"errors"
	"fmt"
	"regexp"
)

// Icon is an image that stands for something, as an entry of a property icons.
type Icon struct {
	// Src ("src") is the URL of the image, or a data: URL with the image in base64.
	Src string `json:"src"`
	// MIMEType ("mimeType") is given when the type that a server sends is missing or
	// generic. It is advice: what counts is what the image is.
	MIMEType string `json:"mimeType,omitempty"`
	// Sizes ("sizes") are the sizes for which the image is meant, such as 48x48, or any
	// for one that can be scaled.
	Sizes []string `json:"sizes,omitempty"`
	// Theme ("theme") is the background for which the image is meant: light or dark.
	Theme string `json:"theme,omitempty"`
}

var iconSize = regexp.MustCompile(`^([1-9][0-9]{0,4}x[1-9][0-9]{0,4}|any)$`)

// Validate reports every member that the protocol does not allow. It does not look at
// where Src leads.
func (i Icon) Validate() error {
	var errs []error
	if i.Src == "" {
		errs = append(errs, errors.New("message: icon: src is required"))
	}
	for _, size := range i.Sizes {
		if !iconSize.MatchString(size) {
			errs = append(errs, fmt.Errorf("message: icon: the size %.20q is neither like 48x48 nor any", size))
		}
	}
	if i.Theme != "" && i.Theme != "light" && i.Theme != "dark" {
		errs = append(errs, fmt.Errorf("message: icon: the theme %.20q is neither light nor dark", i.Theme))
	}
	return errors.Join(errs...)
}
