// Reads a dashboard from stdin with the types that Grafana publishes, which reject unknown and
// missing fields. It prints the title of each panel.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func fail(err error) {
	// The SDK returns an empty list of errors for a valid panel.
	if err != nil && err.Error() != "" {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	plugins.RegisterDefaultPlugins()
	text, err := io.ReadAll(os.Stdin)
	fail(err)
	var whole dashboard.Dashboard
	fail(whole.UnmarshalJSONStrict(text))
	// The type of the dashboard skips a panel for which the list of errors is empty.
	var parts struct{ Panels []json.RawMessage }
	fail(json.Unmarshal(text, &parts))
	for _, part := range parts.Panels {
		var kind struct{ Type string }
		fail(json.Unmarshal(part, &kind))
		if kind.Type == "row" {
			var row dashboard.RowPanel
			fail(row.UnmarshalJSONStrict(part))
			continue
		}
		var panel dashboard.Panel
		fail(panel.UnmarshalJSONStrict(part))
		fail(panel.Validate())
		fmt.Println(*panel.Title)
	}
}
