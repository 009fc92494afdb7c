enable f16;
@group(0) @binding(2) var<storage, read_write> v9: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read> v5: array<vec4<f16>>;
@group(0) @binding(0) var<storage, read> v1: array<f32>;
struct info_st { scalars_usize: array<u32, 4>, static_meta: array<u32, 4> }
@group(0) @binding(3) var<storage, read> info_var: info_st;
@compute @workgroup_size(64, 1, 1)
fn router_dx_f16(@builtin(workgroup_id) v418: vec3<u32>, @builtin(num_workgroups) v420: vec3<u32>, @builtin(local_invocation_index) v427: u32) {
let v471 = &v9;
let v472 = &v5;
let v473 = &v1;
let v3 = u32(0);
let v13 = info_var.scalars_usize[0];
let v14 = info_var.scalars_usize[1];
let v15 = info_var.scalars_usize[2];
let v16 = u32(1);
let v17 = v15 + v16;
let v19 = v17 - v16;
let v419 = v418[2];
let v373 = u32(v419);
let v421 = v420[1];
let v375 = u32(v421);
let v376 = v373 * v375;
let v422 = v420[0];
let v378 = u32(v422);
let v379 = v376 * v378;
let v423 = v418[1];
let v381 = u32(v423);
let v384 = v381 * v378;
let v385 = v379 + v384;
let v425 = v418[0];
let v387 = u32(v425);
let v388 = v385 + v387;
let v438 = u32(64);
let v391 = v388 * v438;
let v428 = v427;
let v393 = u32(v428);
let v394 = v391 + v393;
let v23 = v394 / v19;
let v24 = u32(4);
let v25 = v23 * v24;
let v27 = v394 % v19;
let v30 = v25 < v13;
if v30 {
var<function> v368_store: array<u32, 4>= array<u32, 4>();
let v368 = &v368_store;
let v38 = v13 - v16;
let v39 = min(v25, v38);
let v40 = v39 * v14;
let v45 = &(*v368)[v3];
*v45 = v40;
let v47 = v25 + v16;
let v50 = min(v47, v38);
let v51 = v50 * v14;
let v56 = &(*v368)[v16];
*v56 = v51;
let v57 = u32(2);
let v58 = v25 + v57;
let v61 = min(v58, v38);
let v62 = v61 * v14;
let v67 = &(*v368)[v57];
*v67 = v62;
let v68 = u32(3);
let v69 = v25 + v68;
let v72 = min(v69, v38);
let v73 = v72 * v14;
let v78 = &(*v368)[v68];
*v78 = v73;
var<function> v369_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v369 = &v369_store;
let v83 = f32(0.0);
let v84 = vec4<f32>(v83);
let v89 = &(*v369)[v3];
*v89 = v84;
let v96 = &(*v369)[v16];
*v96 = v84;
let v103 = &(*v369)[v57];
*v103 = v84;
let v110 = &(*v369)[v68];
*v110 = v84;
for(var v113: u32 = v3; v113 < v14; v113 += v16) {
var<function> v371_store: array<vec4<f32>, 4>= array<vec4<f32>, 4>();
let v371 = &v371_store;
let v124 = *v45;
let v125 = v124 + v113;
let v129 = &(*v473)[v125];
let v130 = *v129;
let v131 = vec4<f32>(v130);
let v136 = &(*v371)[v3];
*v136 = v131;
let v142 = *v56;
let v143 = v142 + v113;
let v147 = &(*v473)[v143];
let v148 = *v147;
let v149 = vec4<f32>(v148);
let v154 = &(*v371)[v16];
*v154 = v149;
let v160 = *v67;
let v161 = v160 + v113;
let v165 = &(*v473)[v161];
let v166 = *v165;
let v167 = vec4<f32>(v166);
let v172 = &(*v371)[v57];
*v172 = v167;
let v178 = *v78;
let v179 = v178 + v113;
let v183 = &(*v473)[v179];
let v184 = *v183;
let v185 = vec4<f32>(v184);
let v190 = &(*v371)[v68];
*v190 = v185;
let v191 = v113 * v15;
let v195 = v15 - v16;
let v196 = min(v27, v195);
let v197 = v191 + v196;
let v201 = &(*v472)[v197];
let v202 = *v201;
let v203 = vec4<f32>(v202);
let v209 = *v136;
let v215 = *v89;
let v216 = fma(v209, v203, v215);
*v89 = v216;
let v227 = *v154;
let v233 = *v96;
let v234 = fma(v227, v203, v233);
*v96 = v234;
let v245 = *v172;
let v251 = *v103;
let v252 = fma(v245, v203, v251);
*v103 = v252;
let v263 = *v190;
let v269 = *v110;
let v270 = fma(v263, v203, v269);
*v110 = v270;

}
let v281 = v27 < v15;
let v282 = v30 && v281;
if v282 {
let v288 = *v89;
let v289 = vec4<f16>(v288);
let v292 = v25 * v15;
let v293 = v292 + v27;
let v297 = &(*v471)[v293];
*v297 = v289;

}
let v302 = v47 < v13;
let v304 = v302 && v281;
if v304 {
let v310 = *v96;
let v311 = vec4<f16>(v310);
let v314 = v47 * v15;
let v315 = v314 + v27;
let v319 = &(*v471)[v315];
*v319 = v311;

}
let v324 = v58 < v13;
let v326 = v324 && v281;
if v326 {
let v332 = *v103;
let v333 = vec4<f16>(v332);
let v336 = v58 * v15;
let v337 = v336 + v27;
let v341 = &(*v471)[v337];
*v341 = v333;

}
let v346 = v69 < v13;
let v348 = v346 && v281;
if v348 {
let v354 = *v110;
let v355 = vec4<f16>(v354);
let v358 = v69 * v15;
let v359 = v358 + v27;
let v363 = &(*v471)[v359];
*v363 = v355;

}

}
return;

}
