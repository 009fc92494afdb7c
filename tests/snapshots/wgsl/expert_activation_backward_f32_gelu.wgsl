var<workgroup> shared_v158: array<f32, 64>;
@group(0) @binding(6) var<storage, read_write> v25: array<f32>;
@group(0) @binding(5) var<storage, read_write> v21: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> v17: array<f32>;
@group(0) @binding(3) var<storage, read> v13: array<u32>;
@group(0) @binding(2) var<storage, read> v9: array<u32>;
@group(0) @binding(1) var<storage, read_write> v5: array<vec4<f32>>;
@group(0) @binding(0) var<storage, read> v1: array<vec4<f32>>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 8> }
@group(0) @binding(7) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn expert_activation_backward_f32_gelu(@builtin(local_invocation_index) v419: u32, @builtin(workgroup_id) v421: vec3<u32>, @builtin(num_workgroups) v423: vec3<u32>) {
let v458 = &v25;
let v459 = &v21;
let v460 = &v17;
let v461 = &v13;
let v462 = &v9;
let v463 = &v5;
let v464 = &v1;
let v3 = u32(0);
let v29 = info_var.scalars_usize[0];
let v30 = info_var.scalars_usize[1];
let v31 = info_var.scalars_usize[2];
let v32 = info_var.scalars_usize[3];
let v422 = v421[2];
let v374 = u32(v422);
let v424 = v423[1];
let v376 = u32(v424);
let v377 = v374 * v376;
let v425 = v423[0];
let v379 = u32(v425);
let v380 = v377 * v379;
let v426 = v421[1];
let v382 = u32(v426);
let v385 = v382 * v379;
let v386 = v380 + v385;
let v428 = v421[0];
let v388 = u32(v428);
let v389 = v386 + v388;
let v441 = u32(64);
let v392 = v389 * v441;
let v430 = v419;
let v394 = u32(v430);
let v395 = v392 + v394;
let v35 = v395 / v441;
let v38 = v395 % v441;
let v39 = u32(1);
let v40 = v30 - v39;
let v41 = min(v35, v40);
let v45 = &(*v462)[v41];
let v46 = *v45;
let v47 = u32(v46);
let v48 = v35 * v32;
let v51 = f32(0.0);
let v52 = vec4<f32>(v51);
var<function> v278_store: vec4<f32>;
let v278 = &v278_store;
*v278 = v52;
let v57 = &(*v461)[v29];
let v58 = *v57;
let v59 = u32(v58);
let v60 = v35 < v59;
if v60 {
let v64 = &(*v460)[v47];
let v65 = *v64;
let v66 = vec4<f32>(v65);
for(var v68: u32 = v38; v68 < v32; v68 += v441) {
let v71 = v48 + v68;
let v75 = &(*v463)[v71];
let v76 = *v75;
let v78 = v66 * v76;
let v82 = &(*v464)[v71];
let v83 = *v82;
let v86 = f32(1.0);
let v87 = vec4<f32>(v86);
let v88 = f32(0.7071067690849304);
let v89 = vec4<f32>(v88);
let v90 = f32(0.5);
let v91 = vec4<f32>(v90);
let v92 = v91 * v83;
let v93 = v83 * v89;
let v280 = abs(v93);
let v281 = f32(0.32759109139442444);
let v282 = vec4<f32>(v281);
let v283 = f32(0.2548295855522156);
let v284 = vec4<f32>(v283);
let v285 = f32(-0.2844967544078827);
let v286 = vec4<f32>(v285);
let v287 = f32(1.4214136600494385);
let v288 = vec4<f32>(v287);
let v289 = f32(-1.4531519412994385);
let v290 = vec4<f32>(v289);
let v291 = f32(1.0614054203033447);
let v292 = vec4<f32>(v291);
let v443 = fma(v282, v280, v87);
let v297 = v87 / v443;
let v444 = fma(v292, v297, v290);
let v445 = fma(v444, v297, v288);
let v446 = fma(v445, v297, v286);
let v447 = fma(v446, v297, v284);
let v306 = v447 * v297;
let v307 = -v280;
let v308 = v307 * v280;
let v309 = exp(v308);
let v448 = -v306;
let v449 = fma(v448, v309, v87);
let v314 = v93 < v52;
let v315 = -v449;
let v316 = select(v449, v315, v314);
let v95 = v87 + v316;
let v96 = v92 * v95;
let v105 = f32(0.3989422917366028);
let v106 = vec4<f32>(v105);
let v111 = v83 * v106;
let v113 = v92 * v83;
let v114 = -v113;
let v115 = exp(v114);
let v116 = v111 * v115;
let v457 = fma(v91, v95, v116);
let v118 = v78 * v457;
let v122 = &(*v459)[v71];
*v122 = v118;
let v123 = v66 * v96;
*v75 = v123;
let v130 = *v278;
let v131 = fma(v76, v96, v130);
*v278 = v131;

}

} else {
let v132 = v35 < v31;
if v132 {
for(var v134: u32 = v38; v134 < v32; v134 += v441) {
let v139 = v48 + v134;
let v143 = &(*v463)[v139];
*v143 = v52;
let v153 = &(*v459)[v139];
*v153 = v52;

}

}

}
let v154 = *v278;
var<function> v372_store: f32;
let v372 = &v372_store;
*v372 = v51;
let v358 = v154[0];
let v359 = *v372;
let v360 = v359 + v358;
*v372 = v360;
let v361 = v154[1];
let v362 = *v372;
let v363 = v362 + v361;
*v372 = v363;
let v364 = v154[2];
let v365 = *v372;
let v366 = v365 + v364;
*v372 = v366;
let v367 = v154[3];
let v368 = *v372;
let v369 = v368 + v367;
*v372 = v369;
let v370 = *v372;
let v371 = &shared_v158;
let v165 = &(*v371)[v394];
*v165 = v370;
workgroupBarrier();
let v166 = u32(32);
let v167 = v394 < v166;
if v167 {
let v169 = v394 + v166;
let v173 = &(*v371)[v169];
let v174 = *v173;
let v179 = *v165;
let v180 = v179 + v174;
*v165 = v180;

}
workgroupBarrier();
let v181 = u32(16);
let v182 = v394 < v181;
if v182 {
let v184 = v394 + v181;
let v188 = &(*v371)[v184];
let v189 = *v188;
let v194 = *v165;
let v195 = v194 + v189;
*v165 = v195;

}
workgroupBarrier();
let v196 = u32(8);
let v197 = v394 < v196;
if v197 {
let v199 = v394 + v196;
let v203 = &(*v371)[v199];
let v204 = *v203;
let v209 = *v165;
let v210 = v209 + v204;
*v165 = v210;

}
workgroupBarrier();
let v211 = u32(4);
let v212 = v394 < v211;
if v212 {
let v214 = v394 + v211;
let v218 = &(*v371)[v214];
let v219 = *v218;
let v224 = *v165;
let v225 = v224 + v219;
*v165 = v225;

}
workgroupBarrier();
let v226 = u32(2);
let v227 = v394 < v226;
if v227 {
let v229 = v394 + v226;
let v233 = &(*v371)[v229];
let v234 = *v233;
let v239 = *v165;
let v240 = v239 + v234;
*v165 = v240;

}
workgroupBarrier();
let v242 = v394 < v39;
if v242 {
let v244 = v394 + v39;
let v248 = &(*v371)[v244];
let v249 = *v248;
let v254 = *v165;
let v255 = v254 + v249;
*v165 = v255;

}
workgroupBarrier();
let v260 = &(*v371)[v3];
let v261 = *v260;
let v263 = v38 == v3;
let v264 = v35 < v30;
let v265 = v263 && v264;
if v265 {
let v269 = &(*v458)[v47];
*v269 = v261;

}
return;

}
