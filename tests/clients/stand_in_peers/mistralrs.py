"""Takes the place of the package where peers.py is tried: it says what the stand-in says."""

from types import SimpleNamespace

from stand_in_words import following, rendered, tokens_of, word

Which = SimpleNamespace(Plain=SimpleNamespace)
Architecture, ModelDType = SimpleNamespace(Llama="llama"), SimpleNamespace(F32="f32")
ChatCompletionRequest = SimpleNamespace


class Runner:
    def __init__(self, **_):
        pass

    @staticmethod
    def send_chat_completion_request(request):
        prompt, said = tokens_of(rendered(request.messages, None)), []
        while len(said) < request.max_tokens:
            said.append(following(prompt + said, None))
            usage = SimpleNamespace(completion_tokens=len(said), prompt_tokens=len(prompt)) if len(said) == request.max_tokens else None
            yield SimpleNamespace(choices=[SimpleNamespace(delta=SimpleNamespace(content=word(said[-1])))], usage=usage)
