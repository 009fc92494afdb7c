"""Makes requests that schemathesis draws ask for the model that is served: with another name, all that is drawn beside it is never read."""

import schemathesis

import served


@schemathesis.hook
def before_call(context, case, kwargs):
    del context, kwargs
    if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
        case.body["model"] = served.MODEL
